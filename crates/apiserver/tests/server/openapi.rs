//! The OpenAPI documents, as clients ask for them.

use serde_json::{Value, json};

use crate::support::{Server, start};

/// Defines `paints` of a group, with one version.
async fn define_paints(server: &Server, group: &str, version: &Value) {
    let names = json!({"plural": "paints", "kind": "Paint"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("paints.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    });
    let answer = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
}

/// The fields of a protobuf message that have a length, by their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let (first, rest) = message.split_first().expect("more bytes");
            *message = rest;
            value |= u64::from(first & 0x7f) << (7 * place);
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        assert_eq!(key & 7, 2, "field {} has a length", key >> 3);
        let length = usize::try_from(varint(&mut message)).expect("a length");
        let (content, rest) = message.split_at(length);
        found.push((key >> 3, content));
        message = rest;
    }
    found
}

fn text(message: &[u8], number: u64) -> Option<&str> {
    fields(message)
        .into_iter()
        .find(|(found, _)| *found == number)
        .map(|(_, text)| str::from_utf8(text).expect("UTF-8"))
}

/// A schema of `openapi.v2`, as far as documents of Kubernetes use it.
fn schema(message: &[u8]) -> Value {
    let mut out = json!({});
    for (number, content) in fields(message) {
        let any =
            |message| -> Value { text(message, 2).map(|yaml| serde_json::from_str(yaml).expect("JSON")).unwrap() };
        match number {
            1 | 2 | 4 => {
                let name = ["$ref", "format", "", "description"][usize::try_from(number - 1).unwrap()];
                out[name] = json!(str::from_utf8(content).expect("UTF-8"));
            }
            5 => out["default"] = any(content),
            19 | 20 => {
                let (name, item) = match number {
                    19 => ("required", json!(str::from_utf8(content).expect("UTF-8"))),
                    _ => ("enum", any(content)),
                };
                out.as_object_mut().unwrap().entry(name).or_insert(json!([])).as_array_mut().unwrap().push(item);
            }
            21 => out["additionalProperties"] = schema(fields(content)[0].1),
            22 => out["type"] = json!(text(content, 1)),
            23 => out["items"] = schema(fields(content)[0].1),
            25 => out["properties"] = schemas(content),
            29 => out["externalDocs"] = json!({"description": text(content, 1), "url": text(content, 2)}),
            30 => out["example"] = any(content),
            31 => out[text(content, 1).unwrap()] = any(fields(content)[1].1),
            other => panic!("field {other}"),
        }
    }
    out
}

fn schemas(message: &[u8]) -> Value {
    fields(message)
        .into_iter()
        .map(|(_, pair)| (text(pair, 1).unwrap().to_owned(), schema(fields(pair)[1].1)))
        .collect()
}

/// client-go asks for protobuf only, by an older name of the type.
///
/// Contract: API-04
#[tokio::test(start_paused = true)]
async fn openapi_v2_is_the_same_in_json_and_in_protobuf() {
    let server = start();
    let asked = async |accept: &str| server.send("GET", "/openapi/v2", &[("Accept", accept)], "").await;
    let json = asked("application/json").await.json();
    let answer = asked("application/com.github.proto-openapi.spec.v2@v1.0+protobuf").await;
    assert_eq!(answer.header("content-type"), "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    let document = fields(&answer.body);
    assert_eq!(document.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 8, 9]);
    assert_eq!((document[0].1, text(document[1].1, 1)), (&b"2.0"[..], Some("Kubernetes")));
    assert_eq!(schemas(document[3].1), json["definitions"]);
    assert!(json["definitions"]["io.k8s.api.apps.v1.ReplicaSet"]["properties"]["spec"]["$ref"].is_string());
    assert_eq!(asked("text/plain").await.status, 406);
    assert_eq!(asked("text/html, */*;q=0.1").await.header("content-type"), "application/json");
}

/// Contract: API-04, API-28
#[tokio::test]
async fn documents_of_custom_kinds_say_what_their_definitions_do() {
    let server = start();
    let color = json!({
        "type": "string", "description": "What it looks like.", "example": "red",
        "externalDocs": {"description": "more", "url": "https://example.com"},
    });
    let spec = json!({"type": "object", "properties": {"color": color}});
    let schema = json!({"type": "object", "description": "A paint.", "properties": {"spec": spec}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "selectableFields": [{"jsonPath": ".spec.color"}],
    });
    define_paints(&server, "color-shop.example.com", &version).await;
    let document = server.get("/openapi/v3/apis/color-shop.example.com/v1").await.json();
    assert_eq!(document["info"], json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}));
    let paint = &document["components"]["schemas"]["com.example.color-shop.v1.Paint"];
    assert_eq!(paint["properties"]["spec"], spec);
    let metadata = &paint["properties"]["metadata"];
    let reference = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(metadata["allOf"], json!([{"$ref": reference}]), "what is said beside a reference goes beside an allOf");
    assert_eq!(paint["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.color"}]));
    let root = "/apis/color-shop.example.com/v1/";
    assert!(document["paths"][root].is_null(), "the versions of a group are told by another server");
    let post = &document["paths"][format!("{root}namespaces/{{namespace}}/paints")]["post"];
    assert_eq!(post["operationId"], "createColorShopExampleComV1NamespacedPaint");
    assert_eq!(post["tags"], json!(["colorShopExampleCom_v1"]));

    let json = server.get("/openapi/v2").await.json();
    let definition = &json["definitions"]["com.example.color-shop.v1.Paint"]["properties"];
    assert_eq!(definition["metadata"]["$ref"], "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    assert_eq!(definition["spec"]["properties"]["color"], color);
    let accept = [("Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    let answer = server.send("GET", "/openapi/v2", &accept, "").await;
    assert_eq!(schemas(fields(&answer.body)[3].1), json["definitions"]);
}

/// Generators of clients read the requests of version 2.
///
/// Contract: API-04
#[tokio::test(start_paused = true)]
async fn openapi_v2_has_the_requests_of_version_3_in_its_own_notation() {
    let server = start();
    let two = server.get("/openapi/v2").await.json();
    let mut three = serde_json::Map::new();
    for path in server.get("/openapi/v3").await.json()["paths"].as_object().expect("documents").keys() {
        let document = server.get(&format!("/openapi/v3/{path}")).await.json();
        three.extend(document["paths"].as_object().expect("paths").clone());
    }
    let paths = two["paths"].as_object().expect("paths");
    assert!(paths.len() > 200 && paths.keys().eq(three.keys()), "{} and {}", paths.len(), three.len());
    let at = &paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let deployment = json!({"$ref": "#/definitions/io.k8s.api.apps.v1.Deployment"});
    assert_eq!(at["parameters"][0]["type"], "string");
    assert_eq!((&at["parameters"][0]["name"], &at["parameters"][0]["in"]), (&json!("name"), &json!("path")));
    let (get, put, patch) = (&at["get"], &at["put"], &at["patch"]);
    assert_eq!(get["operationId"], "readAppsV1NamespacedDeployment");
    assert_eq!(get["responses"]["200"], json!({"description": "OK", "schema": deployment}));
    assert_eq!(get["responses"]["401"], json!({"description": "Unauthorized"}));
    assert!(get["produces"].as_array().expect("types").contains(&json!("application/json")));
    let sent = json!({"in": "body", "name": "body", "required": true, "schema": deployment});
    let parameters = put["parameters"].as_array().expect("parameters");
    assert_eq!(parameters.last(), Some(&sent));
    assert_eq!(put["consumes"], json!(["*/*"]));
    let named = |name| parameters.iter().find(|parameter| parameter["name"] == name).expect("a parameter");
    assert_eq!((&named("fieldValidation")["type"], &named("dryRun")["in"]), (&json!("string"), &json!("query")));
    assert!(named("dryRun")["schema"].is_null());
    let applied = json!("application/apply-patch+yaml");
    assert!(patch["consumes"].as_array().expect("types").contains(&applied));
    assert_eq!(two["security"], json!([{"BearerToken": []}]));
    assert_eq!(two["securityDefinitions"]["BearerToken"]["in"], "header");
}

/// `kubectl explain` finds a kind by its requests.
///
/// Contract: API-04
#[tokio::test]
async fn kinds_that_are_only_posted_are_described() {
    let server = start();
    for (path, collection, kind, id) in [
        ("api/v1", "namespaces/{namespace}/bindings", "Binding", "createCoreV1NamespacedBinding"),
        ("apis/authentication.k8s.io/v1", "tokenreviews", "TokenReview", "createAuthenticationV1TokenReview"),
        (
            "apis/authorization.k8s.io/v1",
            "namespaces/{namespace}/localsubjectaccessreviews",
            "LocalSubjectAccessReview",
            "createAuthorizationV1NamespacedLocalSubjectAccessReview",
        ),
    ] {
        let document = server.get(&format!("/openapi/v3/{path}")).await.json();
        let at = &document["paths"][format!("/{path}/{collection}")];
        assert_eq!((&at["post"]["operationId"], &at["get"]), (&json!(id), &Value::Null), "{path}");
        assert_eq!(at["post"]["x-kubernetes-group-version-kind"]["kind"], kind);
        let schema = at["post"]["requestBody"]["content"]["*/*"]["schema"]["$ref"].as_str().unwrap_or_default();
        let schema = schema.rsplit('/').next().unwrap_or_default();
        assert_eq!(document["components"]["schemas"][schema]["x-kubernetes-group-version-kind"][0]["kind"], kind);
        let index = server.get("/openapi/v3").await.json();
        assert!(index["paths"][path]["serverRelativeURL"].is_string(), "{path}");
    }
    let document = server.get("/openapi/v3/apis/rbac.authorization.k8s.io/v1").await.json();
    let post = &document["paths"]["/apis/rbac.authorization.k8s.io/v1/clusterroles"]["post"];
    assert_eq!(
        (&post["tags"], &post["operationId"]),
        (&json!(["rbacAuthorization_v1"]), &json!("createRbacAuthorizationV1ClusterRole"))
    );
}

/// Contract: API-04
#[tokio::test]
async fn enumerations_say_what_their_values_mean() {
    let server = start();
    let document = server.get("/openapi/v3/api/v1").await.json();
    let schema = |kind: &str, field: &str| {
        document["components"]["schemas"][format!("io.k8s.api.core.v1.{kind}")]["properties"][field].clone()
    };
    let protocol = schema("ContainerPort", "protocol");
    let words = "\n\nPossible enum values:\n - `\"SCTP\"` is the SCTP protocol.\n - `\"TCP\"` is the TCP protocol.\n - `\"UDP\"` is the UDP protocol.";
    assert!(protocol["description"].as_str().is_some_and(|text| text.ends_with(words)), "{protocol}");
    assert_eq!(protocol["enum"], json!(["SCTP", "TCP", "UDP"]));
    // Of a list or a map it is the values that are enumerated.
    let statuses = schema("PersistentVolumeClaimStatus", "allocatedResourceStatuses");
    assert_eq!((&statuses["enum"], &statuses["x-kubernetes-map-type"]), (&Value::Null, &json!("granular")));
    assert_eq!(statuses["additionalProperties"]["enum"][0], "ControllerResizeInProgress");
    let networking = server.get("/openapi/v3/apis/networking.k8s.io/v1").await.json();
    let schemas = &networking["components"]["schemas"];
    let rule = &schemas["io.k8s.api.networking.v1.IngressRule"]["properties"]["http"];
    let reference = "#/components/schemas/io.k8s.api.networking.v1.HTTPIngressRuleValue";
    assert_eq!(*rule, json!({"$ref": reference}), "nothing is said beside the reference");
    let path = &schemas["io.k8s.api.networking.v1.HTTPIngressPath"]["properties"]["pathType"];
    assert_eq!(path["enum"], json!(["Exact", "ImplementationSpecific", "Prefix"]));
}

/// Contract: API-04
#[tokio::test(start_paused = true)]
async fn a_client_that_has_a_document_is_not_sent_it_again() {
    let server = start();
    let index = server.get("/openapi/v3").await.json();
    let by_hash = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
    for (path, vary) in
        [("/openapi/v2", "Accept"), ("/openapi/v3", ""), ("/openapi/v3/apis/apps/v1", "Accept"), (by_hash, "Accept")]
    {
        let answer = server.get(path).await;
        let etag = answer.header("etag");
        assert_eq!((answer.status, answer.header("vary")), (200, vary), "{path}");
        assert!(etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'), "{path}: {etag}");
        let (listed, other) = (format!("\"x\" , W/{etag}"), format!("\"x\", {}", etag.trim_matches('"')));
        for (tags, status) in [(etag, 304), (&*listed, 304), ("*", 304), ("\"x\"", 200), (&*other, 200)] {
            let again = server.send("GET", path, &[("If-None-Match", tags)], "").await;
            assert_eq!((again.status, again.body.is_empty()), (status, status == 304), "{path} {tags}");
            assert_eq!((again.header("etag"), again.header("vary")), (etag, vary), "{path} {tags}");
        }
        let (cache, expires) = (answer.header("cache-control"), answer.header("expires"));
        if path == by_hash {
            assert_eq!(cache, "public, immutable");
            assert!(expires.starts_with("Sat, 15 Jan 2028 ") && expires.ends_with(" GMT"), "{expires}");
        } else {
            assert_eq!((cache, expires), ("no-cache, private", ""), "{path}");
        }
    }
    let moved = server.get("/openapi/v3/apis/apps/v1?hash=0").await;
    assert_eq!((moved.status, moved.header("location"), moved.header("expires")), (301, by_hash, ""));
    assert_eq!(server.get("/openapi/v3/apis/apps/v1?hash=").await.status, 200);
    assert_eq!(server.get("/openapi/v2/").await.status, 404);
    let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    for (accept, status) in
        [("text/html", 406), (protobuf, 406), ("text/html, application/*;q=0.1", 200), ("application/json", 200)]
    {
        let answer = server.send("GET", "/openapi/v3/apis/apps/v1", &[("Accept", accept)], "").await;
        assert_eq!((answer.status, answer.header("vary")), (status, "Accept"), "{accept}");
    }
}

/// Contract: API-04, API-28
#[tokio::test(start_paused = true)]
async fn a_new_kind_makes_the_documents_new_that_tell_of_it() {
    let server = start();
    let tags = async || {
        let mut tags = Vec::new();
        for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"] {
            tags.push(server.get(path).await.header("etag").to_owned());
        }
        tags
    };
    let before = tags().await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    define_paints(&server, "example.com", &version).await;
    let after = tags().await;
    let same: Vec<bool> = before.iter().zip(&after).map(|(before, after)| before == after).collect();
    assert_eq!(same, [false, false, true]);
    assert_eq!(server.get("/openapi/v3/apis/example.com/v1").await.status, 200);
}
