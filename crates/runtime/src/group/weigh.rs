//! How much there is in each namespace: one for each of its pods and one for itself, by lists of their metadata.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_machinery::group::Weights;
use muster_objects::shard;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::client::{Client, ClientError, Form};

/// How many items a page has.
const PAGE: u64 = 500;
/// So many lists of one pod take no longer than a page does: some 2 ms and 40 to 60 ms of kube-apiserver 1.36, and the way.
const LISTS_A_PAGE: u64 = 10;
/// After a count that was refused the next begins so much later.
const AGAIN: Duration = Duration::from_secs(10);
/// Namespaces count too, for those without pods must not all come to one shard: names that end differently are near each
/// other in the hash.
const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/pods";

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    /// `null` where there are none, as kube-apiserver writes an empty list of metadata.
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(default)]
    resource_version: String,
    /// How many there are behind the page. A server need not say.
    remaining_item_count: Option<i64>,
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

impl Page {
    /// How many there are on a first page and behind it, where the server says.
    fn all(&self) -> Option<u64> {
        let behind = if self.metadata.next.is_empty() { 0 } else { self.metadata.remaining_item_count? };
        Some(u64::try_from(behind).ok()? + self.items.as_ref().map_or(0, |items| items.len() as u64))
    }
}

/// Counts the namespaces and their pods; `None` where a list is refused.
pub(super) async fn weigh(client: Client) -> Option<Weights> {
    match counts(&client).await {
        Ok(counts) => Some(Weights::new(counts)),
        Err(error) => {
            tracing::warn!(%error, "the namespaces and their pods were not counted");
            tokio::time::sleep(AGAIN).await;
            None
        }
    }
}

/// Pods are read page by page, or their number is asked for namespace by namespace where that is less work.
async fn counts(client: &Client) -> Result<BTreeMap<u64, u64>, ClientError> {
    let (mut names, mut counts) = (Vec::new(), BTreeMap::new());
    let mut add = |namespace: &str, count: u64| *counts.entry(shard::hash(namespace)).or_default() += count;
    each(client, NAMESPACES, |namespace| names.push(namespace.name)).await?;
    names.iter().for_each(|name| add(name, 1));
    let first = page(client, PODS, "limit=1").await?;
    // As of a version that the server's cache has reached: it does not look for a newer one for each list.
    let one = format!("limit=1&resourceVersion={}&resourceVersionMatch=NotOlderThan", first.metadata.resource_version);
    let is_dated = !first.metadata.resource_version.is_empty();
    if !is_dated || first.all().is_none_or(|all| names.len() as u64 > all / PAGE * LISTS_A_PAGE) {
        each(client, PODS, |pod| add(&pod.namespace.unwrap_or_default(), 1)).await?;
        return Ok(counts);
    }
    for name in &names {
        let pods = format!("{NAMESPACES}/{name}/pods");
        let page = match page(client, &pods, &one).await {
            // The server's cache is behind: its storage is asked.
            Err(error) if error.is_too_new() => page(client, &pods, "limit=1").await?,
            page => page?,
        };
        match page.all() {
            Some(count) => add(name, count),
            None => each(client, &pods, |_| add(name, 1)).await?,
        }
    }
    Ok(counts)
}

/// Goes through a collection, page by page.
async fn each(client: &Client, collection: &str, mut found: impl FnMut(ItemMeta)) -> Result<(), ClientError> {
    let mut next = String::new();
    loop {
        let token = utf8_percent_encode(&next, NON_ALPHANUMERIC);
        let page = page(client, collection, &format!("limit={PAGE}&continue={token}")).await?;
        page.items.into_iter().flatten().for_each(|item| found(item.metadata));
        if page.metadata.next.is_empty() {
            return Ok(());
        }
        next = page.metadata.next;
    }
}

async fn page(client: &Client, collection: &str, query: &str) -> Result<Page, ClientError> {
    let path = format!("{collection}?{query}");
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

    fn counted(counts: &[(&str, u64)]) -> Option<Weights> {
        Some(Weights::new(counts.iter().map(|(namespace, count)| (shard::hash(namespace), *count))))
    }

    /// What comes of these lists and their answers, which are asked for in this order.
    async fn weighed(answers: &[(&str, &'static str)]) -> Option<Weights> {
        let (client, mut server) = server();
        let weighing = tokio::spawn(weigh(client));
        for (list, answer) in answers {
            let asked = server.next().await;
            assert_eq!(asked.path, *list);
            asked.answer(200, *answer);
        }
        weighing.await.unwrap()
    }

    const NAMESPACES: &str = "/api/v1/namespaces?limit=500&continue=";
    const ONE_POD: &str = "/api/v1/pods?limit=1";
    const PODS: &str = "/api/v1/pods?limit=500&continue=";
    const NONE: &str = r#"{"metadata":{"resourceVersion":"1"},"items":null}"#;
    const SHOP: &str = r#"{"metadata":{},"items":[{"metadata":{"name":"shop"}},{"metadata":{"name":"empty"}}]}"#;
    const MANY: &str = r#"{"metadata":{"continue":"c","resourceVersion":"70","remainingItemCount":499},"items":[{"metadata":{"name":"a","namespace":"shop"}}]}"#;

    /// Contract: SH-01
    #[tokio::test(start_paused = true)]
    async fn namespaces_and_pods_are_added_up_and_kube_apiserver_writes_an_empty_list_as_null() {
        const SOME: &str = r#"{"metadata":{"remainingItemCount":400},"items":[{"metadata":{"namespace":"shop"}}]}"#;
        const ONE: &str = r#"{"metadata":{"continue":"a/b"},"items":[{"metadata":{"name":"a","namespace":"shop"}}]}"#;
        const REST: &str = r#"{"metadata":{},"items":[{"metadata":{"name":"b","namespace":"shop"}},
            {"metadata":{"name":"shop","namespace":"made-since"}}]}"#;
        let second = PODS.to_owned() + "a%2Fb";
        for (answers, expected) in [
            (vec![(NAMESPACES, NONE), (ONE_POD, NONE)], counted(&[])),
            (vec![(NAMESPACES, SHOP), (ONE_POD, NONE), (PODS, NONE)], counted(&[("shop", 1), ("empty", 1)])),
            (
                // A server that does not say how many there are.
                vec![(NAMESPACES, SHOP), (ONE_POD, ONE), (PODS, ONE), (&second, REST)],
                counted(&[("shop", 3), ("empty", 1), ("made-since", 1)]),
            ),
            // Less than a page of pods.
            (vec![(NAMESPACES, SHOP), (ONE_POD, SOME), (PODS, SOME)], counted(&[("shop", 2), ("empty", 1)])),
            (vec![(NAMESPACES, SHOP), (ONE_POD, NONE), (PODS, "no list")], None),
            (vec![(NAMESPACES, SHOP), (ONE_POD, "no list")], None),
            (vec![(NAMESPACES, "no list")], None),
        ] {
            assert_eq!(weighed(&answers).await, expected);
        }
    }

    /// Many pods are not read to count them: a server says how many a namespace has.
    ///
    /// Contract: SH-01
    #[tokio::test(start_paused = true)]
    async fn of_many_pods_the_number_is_asked_for_by_namespace() {
        const OF_SHOP: &str =
            "/api/v1/namespaces/shop/pods?limit=1&resourceVersion=70&resourceVersionMatch=NotOlderThan";
        const OF_EMPTY: &str =
            "/api/v1/namespaces/empty/pods?limit=1&resourceVersion=70&resourceVersionMatch=NotOlderThan";
        let all = (NAMESPACES, SHOP);
        let weights = weighed(&[all, (ONE_POD, MANY), (OF_SHOP, MANY), (OF_EMPTY, NONE)]).await;
        assert_eq!(weights, counted(&[("shop", 501), ("empty", 1)]));
        // A server whose cache is behind answers by its storage.
        let (client, mut server) = server();
        let weighing = tokio::spawn(weigh(client));
        for answer in [SHOP, MANY] {
            server.next().await.answer(200, answer);
        }
        let behind = r#"{"kind":"Status","code":504,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
        server.next().await.answer(504, behind);
        let again = server.next().await;
        assert_eq!(again.path, "/api/v1/namespaces/shop/pods?limit=1");
        again.answer(200, MANY);
        server.next().await.answer(200, NONE);
        assert_eq!(weighing.await.unwrap(), counted(&[("shop", 501), ("empty", 1)]));
        // One that says it of all, and of a namespace not.
        const UNSAID: &str = r#"{"metadata":{"continue":"c"},"items":[{"metadata":{"name":"a"}}]}"#;
        const THREE: &str = r#"{"metadata":{},"items":[{"metadata":{}},{"metadata":{}},{"metadata":{}}]}"#;
        let pages_of_shop = "/api/v1/namespaces/shop/pods?limit=500&continue=";
        let answers = [all, (ONE_POD, MANY), (OF_SHOP, UNSAID), (pages_of_shop, THREE), (OF_EMPTY, NONE)];
        assert_eq!(weighed(&answers).await, counted(&[("shop", 4), ("empty", 1)]));
        assert_eq!(weighed(&[all, (ONE_POD, MANY), (OF_SHOP, "no list")]).await, None);
        // Pages are less work than lists of more namespaces than this, and a count below 0 is none.
        let names = |count: u64| {
            let items: Vec<String> = (0..count).map(|at| format!(r#"{{"metadata":{{"name":"n{at}"}}}}"#)).collect();
            &*format!(r#"{{"metadata":{{}},"items":[{}]}}"#, items.join(",")).leak()
        };
        let few = "/api/v1/namespaces/n0/pods?limit=1&resourceVersion=70&resourceVersionMatch=NotOlderThan";
        for (count, next) in [(LISTS_A_PAGE, few), (LISTS_A_PAGE + 1, PODS)] {
            assert_eq!(weighed(&[(NAMESPACES, names(count)), (ONE_POD, MANY), (next, "no list")]).await, None);
        }
        let below = MANY.replace("499", "-1").leak();
        assert_eq!(weighed(&[all, (ONE_POD, below), (PODS, NONE)]).await, counted(&[("shop", 1), ("empty", 1)]));
    }
}
