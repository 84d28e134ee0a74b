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
    /// Null where there are none.
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
