//! How many pods there are in each namespace, by one list of their metadata.

use std::collections::BTreeMap;

use muster_machinery::group::Weights;
use muster_objects::shard;
use serde::Deserialize;

use crate::client::{Client, ClientError, Form};

/// How many pods a page has.
const PAGE: u32 = 500;

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    /// `null` where there are none, as kube-apiserver writes an empty list of metadata.
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMeta,
}

#[derive(Deserialize)]
struct ItemMeta {
    #[serde(default)]
    namespace: String,
}

/// Counts the pods, page by page; `None` where a page is refused.
pub(super) async fn weigh(client: Client) -> Option<Weights> {
    let mut namespaces: BTreeMap<u64, u64> = BTreeMap::new();
    let mut next = String::new();
    loop {
        let page = match page(&client, &next).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "the pods of the namespaces were not counted");
                return None;
            }
        };
        for item in page.items.into_iter().flatten() {
            *namespaces.entry(shard::hash(&item.metadata.namespace)).or_default() += 1;
        }
        if page.metadata.next.is_empty() {
            return Some(Weights::new(namespaces));
        }
        next = page.metadata.next;
    }
}

async fn page(client: &Client, next: &str) -> Result<Page, ClientError> {
    let token = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC);
    let path = format!("/api/v1/pods?limit={PAGE}&continue={token}");
    let body = client.get_as(&path, Form::MetadataList).await?.body;
    serde_json::from_slice(&body).map_err(|error| ClientError::Answer {
        method: http::Method::GET,
        path,
        source: Box::new(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::server;

    /// Contract: SH-01
    #[tokio::test(start_paused = true)]
    async fn pages_are_added_up_and_kube_apiserver_writes_an_empty_list_as_null() {
        for (pages, expected) in [
            (vec![r#"{"metadata":{"resourceVersion":"1"},"items":null}"#], Some(Weights::default())),
            (
                vec![
                    r#"{"metadata":{"continue":"a/b"},"items":[{"metadata":{"namespace":"shop"}}]}"#,
                    r#"{"metadata":{},"items":[{"metadata":{"namespace":"shop"}},{"metadata":{"namespace":"x"}}]}"#,
                ],
                Some(Weights::new([(shard::hash("shop"), 2), (shard::hash("x"), 1)])),
            ),
            (vec!["no list"], None),
        ] {
            let (client, mut server) = server();
            let weighing = tokio::spawn(weigh(client));
            for (number, page) in pages.into_iter().enumerate() {
                let asked = server.next().await;
                let next = if number == 0 { "" } else { "a%2Fb" };
                assert_eq!(asked.path, format!("/api/v1/pods?limit=500&continue={next}"));
                asked.answer(200, page);
            }
            assert_eq!(weighing.await.unwrap(), expected);
        }
    }
}
