//! Which group comes before which in discovery, and which version within a group: the reference's priorities.

/// Group, version, the group's priority and the version's; higher ones come first.
const PRIORITIES: [(&str, &str, i64, i64); 25] = [
    ("", "v1", 18000, 1),
    ("apps", "v1", 17800, 15),
    ("events.k8s.io", "v1", 17750, 15),
    ("authentication.k8s.io", "v1", 17700, 15),
    ("authorization.k8s.io", "v1", 17600, 15),
    ("autoscaling", "v1", 17500, 15),
    ("autoscaling", "v2", 17500, 30),
    ("batch", "v1", 17400, 15),
    ("certificates.k8s.io", "v1", 17300, 15),
    ("networking.k8s.io", "v1", 17200, 15),
    ("policy", "v1", 17100, 15),
    ("rbac.authorization.k8s.io", "v1", 17000, 15),
    ("storage.k8s.io", "v1", 16800, 15),
    ("apiextensions.k8s.io", "v1", 16700, 15),
    ("admissionregistration.k8s.io", "v1", 16700, 15),
    ("scheduling.k8s.io", "v1", 16600, 15),
    ("coordination.k8s.io", "v1", 16500, 15),
    ("node.k8s.io", "v1", 16300, 15),
    ("discovery.k8s.io", "v1", 16200, 15),
    ("resource.k8s.io", "v1", 16200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16100, 21),
    ("internal.apiserver.k8s.io", "v1alpha1", 16000, 9),
    ("storagemigration.k8s.io", "v1beta1", 15800, 9),
    // The server that knows the others comes before them all.
    ("apiregistration.k8s.io", "v1", 20000, 1),
    ("apiregistration.k8s.io", "v1beta1", 20000, 0),
];

/// What a group of custom resources has, and each of its versions.
const CUSTOM: (i64, i64) = (1000, 100);

/// The priority of a group and of a version in it. Versions of equal priority come in the order of their names
/// ([`compare_versions`]).
#[must_use]
pub fn priority(group: &str, version: &str) -> (i64, i64) {
    let found = PRIORITIES.iter().find(|(g, v, ..)| (*g, *v) == (group, version));
    found.map_or(CUSTOM, |(.., group, version)| (*group, *version))
}

/// Whether a group is none of Kubernetes' own.
#[must_use]
pub fn is_custom(group: &str) -> bool {
    PRIORITIES.iter().all(|(known, ..)| *known != group)
}

/// How versions compare by their names: `v2` before `v1`, `v1` before `v1beta2`, `v1beta2` before `v1beta1`, that
/// before `v1alpha1`, and whatever has no such form last, by its letters.
#[must_use]
pub fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// How stable a version is (2 for a released one), its number, and the number behind `alpha` or `beta`.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        if digits { text.parse().ok() } else { None }
    };
    let rest = version.strip_prefix('v')?;
    let (stable, word) = match () {
        () if rest.contains("alpha") => (0, "alpha"),
        () if rest.contains("beta") => (1, "beta"),
        () => return Some((2, number(rest)?, 0)),
    };
    let (major, minor) = rest.split_once(word)?;
    Some((stable, number(major)?, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-03
    #[test]
    fn versions_come_in_the_order_of_their_names() {
        let mut versions =
            ["v1alpha1", "foo", "v1", "v11beta2", "v10", "v2", "v1beta1", "v3beta1", "v12alpha1", "foo10", "v01"];
        versions.sort_by(|a, b| compare_versions(a, b));
        let expected =
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v1beta1", "v12alpha1", "v1alpha1", "foo", "foo10", "v01"];
        assert_eq!(versions, expected);
    }
}
