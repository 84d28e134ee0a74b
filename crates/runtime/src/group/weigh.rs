//! How much there is in each namespace: one for each of its pods and one for itself, by lists of their metadata.

use std::collections::BTreeMap;

use muster_machinery::group::Weights;
use muster_objects::shard;
use serde::Deserialize;

use crate::client::{Client, ClientError, Form};

/// How many items a page has.
const PAGE: u32 = 500;
/// What is counted. Namespaces count too, for those without pods must not all come to one shard: names that end
/// differently are near each other in the hash.
const COUNTED: [&str; 2] = ["/api/v1/namespaces", "/api/v1/pods"];

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
    name: String,
    /// None for a namespace itself.
    namespace: Option<String>,
}

/// Counts the namespaces and their pods, page by page; `None` where a page is refused.
pub(super) async fn weigh(client: Client) -> Option<Weights> {
    let mut namespaces: BTreeMap<u64, u64> = BTreeMap::new();
    for collection in COUNTED {
        if let Err(error) = count(&client, collection, &mut namespaces).await {
            tracing::warn!(%error, "the namespaces and their pods were not counted");
            return None;
        }
    }
    Some(Weights::new(namespaces))
}

async fn count(client: &Client, collection: &str, namespaces: &mut BTreeMap<u64, u64>) -> Result<(), ClientError> {
    let mut next = String::new();
    loop {
        let page = page(client, collection, &next).await?;
        for ItemMeta { name, namespace } in page.items.into_iter().flatten().map(|item| item.metadata) {
            *namespaces.entry(shard::hash(&namespace.unwrap_or(name))).or_default() += 1;
        }
        if page.metadata.next.is_empty() {
            return Ok(());
        }
        next = page.metadata.next;
    }
}

async fn page(client: &Client, collection: &str, next: &str) -> Result<Page, ClientError> {
    let token = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC);
    let path = format!("{collection}?limit={PAGE}&continue={token}");
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
    async fn namespaces_and_pods_are_added_up_and_kube_apiserver_writes_an_empty_list_as_null() {
        const NAMESPACES: &str = "/api/v1/namespaces?limit=500&continue=";
        const PODS: &str = "/api/v1/pods?limit=500&continue=";
        const NONE: &str = r#"{"metadata":{"resourceVersion":"1"},"items":null}"#;
        const SHOP: &str = r#"{"metadata":{},"items":[{"metadata":{"name":"shop"}},{"metadata":{"name":"empty"}}]}"#;
        let counted = |counts: &[(&str, u64)]| {
            Some(Weights::new(counts.iter().map(|(namespace, count)| (shard::hash(namespace), *count))))
        };
        for (pages, expected) in [
            (vec![(NAMESPACES, "", NONE), (PODS, "", NONE)], counted(&[])),
            (vec![(NAMESPACES, "", SHOP), (PODS, "", NONE)], counted(&[("shop", 1), ("empty", 1)])),
            (
                vec![
                    (NAMESPACES, "", SHOP),
                    (
                        PODS,
                        "",
                        r#"{"metadata":{"continue":"a/b"},"items":[{"metadata":{"name":"a","namespace":"shop"}}]}"#,
                    ),
                    (
                        PODS,
                        "a%2Fb",
                        r#"{"metadata":{},"items":[{"metadata":{"name":"b","namespace":"shop"}},
                            {"metadata":{"name":"shop","namespace":"made-since"}}]}"#,
                    ),
                ],
                counted(&[("shop", 3), ("empty", 1), ("made-since", 1)]),
            ),
            (vec![(NAMESPACES, "", SHOP), (PODS, "", "no list")], None),
            (vec![(NAMESPACES, "", "no list")], None),
        ] {
            let (client, mut server) = server();
            let weighing = tokio::spawn(weigh(client));
            for (list, next, page) in pages {
                let asked = server.next().await;
                assert_eq!(asked.path, format!("{list}{next}"));
                asked.answer(200, page);
            }
            assert_eq!(weighing.await.unwrap(), expected);
        }
    }
}
