//! Who may see the page: the browser that opened its link, and nothing else on the machine or the network (PG-01).
//!
//! The link has a token that works once. Who opens it gets a cookie, which a browser sends from the page itself only
//! (`SameSite=Strict`) and shows no script (`HttpOnly`). A request is answered only where
//!
//! - `Host` names the page's own address, so that no other name that leads here is of use (DNS rebinding);
//! - `Origin` and `Sec-Fetch-Site`, where they are sent, name the page itself, and a `POST` has the first;
//! - the cookie is there, compared in a time that tells nothing of it;
//! - for all but the page's empty frame, the session's key too, in the header `x-muster-key` or the parameter `key`: a
//!   browser shows cookies to every port of this machine, where another user may listen, and what the page's own origin stores
//!   to that origin only.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, Method, Uri, header};
use rand::TryRngCore as _;
use rand::rngs::OsRng;

/// The header that has a session's key.
const KEY: header::HeaderName = header::HeaderName::from_static("x-muster-key");
/// How many links may have been used: a bound for what is kept of them.
const MOST_SESSIONS: usize = 1_000;

/// Decides who may see the page.
pub(crate) struct Sessions {
    address: SocketAddr,
    tour: bool,
    links: Box<dyn Fn(&str) + Send + Sync>,
    keys: Mutex<Keys>,
}

struct Keys {
    /// The token of the link that was not used yet.
    token: String,
    sessions: Vec<Session>,
}

/// What a browser that came by the link was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// The value of its cookie.
    cookie: String,
    /// What its pages send besides.
    pub(crate) key: String,
}

/// What a request needs besides the cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: there is nothing of the cluster in the answer.
    Cookie,
    /// The key.
    Key,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is answered.
    Pass,
    /// It used the link: it gets this header `Set-Cookie` and this key, and is sent on.
    Enter(String, String),
    /// It is not: the status, and why.
    Refuse(u16, &'static str),
}

impl Sessions {
    /// Those of a page at this address. Its first link is told at once.
    pub(crate) fn new(address: SocketAddr, tour: bool, links: Box<dyn Fn(&str) + Send + Sync>) -> Self {
        let keys = Mutex::new(Keys { token: secret(), sessions: Vec::new() });
        let sessions = Self { address, tour, links, keys };
        sessions.tell();
        sessions
    }

    /// Where a browser goes after the link.
    pub(crate) fn first_view(&self) -> &'static str {
        if self.tour { "/tour" } else { "/" }
    }

    /// Judges a request by its head.
    pub(crate) fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap, needs: Needs) -> Verdict {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        if hosts.next().is_some() || !host.is_some_and(|host| self.is_own(host)) {
            return Verdict::Refuse(421, "the header Host does not name this page");
        }
        let origin = text(header::ORIGIN);
        let own_origin = origin.map(|origin| origin.strip_prefix("http://").is_some_and(|host| self.is_own(host)));
        if own_origin == Some(false) {
            return Verdict::Refuse(403, "the request comes from a page of another origin");
        }
        if method != Method::GET && own_origin.is_none() {
            return Verdict::Refuse(403, "the header Origin is missing");
        }
        let site = text(header::HeaderName::from_static("sec-fetch-site"));
        let token = uri.path().strip_prefix("/open/");
        // A link may be followed from anywhere; what it gives is a cookie for the browser that did.
        if token.is_none() && site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Verdict::Refuse(403, "the request comes from another site");
        }
        if let Some(token) = token {
            return match self.enter(token) {
                Some((cookie, key)) if method == Method::GET => Verdict::Enter(cookie, key),
                _ => Verdict::Refuse(
                    401,
                    "this link was used already, or is none; the newest one stands in the terminal",
                ),
            };
        }
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
        let mut values = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let sent =
            uri.query().into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("key="));
        let key = text(KEY).or(sent);
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let session = values.find_map(|(at, value)| {
            let known = keys.sessions.iter().find(|session| same(&session.cookie, value));
            known.filter(|_| at == name)
        });
        match session {
            None => Verdict::Refuse(401, "open the link that stands in the terminal"),
            Some(session) if needs == Needs::Key && !key.is_some_and(|key| same(&session.key, key)) => {
                Verdict::Refuse(401, "the session's key is missing: open the link that stands in the terminal")
            }
            Some(_) => Verdict::Pass,
        }
    }

    /// Takes a token for a header `Set-Cookie` and a key.
    fn enter(&self, token: &str) -> Option<(String, String)> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !same(&keys.token, token) || keys.sessions.len() == MOST_SESSIONS {
            return None;
        }
        let session = Session { cookie: secret(), key: secret() };
        keys.sessions.push(session.clone());
        keys.token = secret();
        drop(keys);
        self.tell();
        let Session { cookie, key } = session;
        Some((format!("{}={cookie}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name()), key))
    }

    fn tell(&self) {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let link = format!("http://{}/open/{}", self.address, keys.token);
        drop(keys);
        (self.links)(&link);
    }

    /// Cookies are not kept apart by ports.
    fn cookie_name(&self) -> String {
        format!("muster-page-{}", self.address.port())
    }

    fn is_own(&self, host: &str) -> bool {
        let port = self.address.port();
        host == self.address.to_string() || host == format!("localhost:{port}")
    }
}

/// 256 bits of the operating system's randomness, in hexadecimal digits.
fn secret() -> String {
    let mut bytes = [0; 32];
    // Without randomness there is nothing to serve safely with.
    OsRng.try_fill_bytes(&mut bytes).expect("the operating system gives randomness");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether two texts are the same, in a time that depends on their lengths alone.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    type Links = Arc<Mutex<Vec<String>>>;
    type Headers<'a> = &'a [(&'a str, &'a str)];

    fn sessions() -> (Sessions, Links) {
        let links: Links = Arc::default();
        let told = Arc::clone(&links);
        let tell = move |link: &str| told.lock().unwrap().push(link.to_owned());
        (Sessions::new("127.0.0.1:4000".parse().unwrap(), false, Box::new(tell)), links)
    }

    fn judge(sessions: &Sessions, method: &Method, target: &str, headers: Headers<'_>) -> Verdict {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        sessions.judge(method, &target.parse().unwrap(), &map, Needs::Cookie)
    }

    fn path(links: &Links) -> String {
        links.lock().unwrap().last().unwrap().strip_prefix("http://127.0.0.1:4000").unwrap().to_owned()
    }

    fn enter(sessions: &Sessions, links: &Links) -> String {
        let Verdict::Enter(cookie, _) = judge(sessions, &Method::GET, &path(links), &[("host", "127.0.0.1:4000")])
        else {
            panic!("the link does not work");
        };
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Contract: PG-01
    #[test]
    fn a_link_works_once_and_the_next_one_is_told() {
        let (sessions, links) = sessions();
        let first = path(&links);
        enter(&sessions, &links);
        assert_eq!(links.lock().unwrap().len(), 2);
        let again = judge(&sessions, &Method::GET, &first, &[("host", "127.0.0.1:4000")]);
        assert!(matches!(again, Verdict::Refuse(401, _)), "{again:?}");
        // The second one does not end the first one's session.
        let (one, two) = (enter(&sessions, &links), enter(&sessions, &links));
        for cookie in [&*one, &*two] {
            let seen = judge(&sessions, &Method::GET, "/", &[("host", "127.0.0.1:4000"), ("cookie", cookie)]);
            assert_eq!(seen, Verdict::Pass);
        }
    }

    /// Contract: PG-01
    #[test]
    fn only_the_page_itself_is_answered() {
        let (sessions, links) = sessions();
        let cookie = enter(&sessions, &links);
        let cookie = &*cookie;
        let other = format!("{cookie}x");
        let get = &Method::GET;
        let post = &Method::POST;
        let host = ("host", "127.0.0.1:4000");
        let cases: &[(&Method, Headers<'_>, u16)] = &[
            (get, &[host, ("cookie", cookie)], 200),
            (get, &[("host", "localhost:4000"), ("cookie", cookie)], 200),
            (get, &[host, ("cookie", &format!("theme=dark; {cookie}; a=b"))], 200),
            (get, &[host, ("cookie", cookie), ("sec-fetch-site", "same-origin")], 200),
            (get, &[host, ("cookie", cookie), ("sec-fetch-site", "none")], 200),
            (post, &[host, ("cookie", cookie), ("origin", "http://127.0.0.1:4000")], 200),
            // No cookie, or another one.
            (get, &[host], 401),
            (get, &[host, ("cookie", &other)], 401),
            (get, &[host, ("cookie", "muster-page-4000=")], 401),
            (get, &[host, ("cookie", &cookie.replace("4000", "4001"))], 401),
            (post, &[host, ("origin", "http://127.0.0.1:4000")], 401),
            // Another name that leads here.
            (get, &[("host", "evil.example:4000"), ("cookie", cookie)], 421),
            (get, &[("host", "127.0.0.1"), ("cookie", cookie)], 421),
            (get, &[("cookie", cookie)], 421),
            (get, &[host, ("host", "evil.example"), ("cookie", cookie)], 421),
            // A page of another origin.
            (get, &[host, ("cookie", cookie), ("origin", "http://evil.example")], 403),
            (get, &[host, ("cookie", cookie), ("origin", "null")], 403),
            (get, &[host, ("cookie", cookie), ("origin", "https://127.0.0.1:4000")], 403),
            (get, &[host, ("cookie", cookie), ("origin", "http://127.0.0.1:4001")], 403),
            (get, &[host, ("cookie", cookie), ("sec-fetch-site", "cross-site")], 403),
            (get, &[host, ("cookie", cookie), ("sec-fetch-site", "same-site")], 403),
            (post, &[host, ("cookie", cookie)], 403),
            (post, &[host, ("cookie", cookie), ("origin", "http://127.0.0.1:4000.evil.example")], 403),
        ];
        for (method, headers, expected) in cases {
            let found = match judge(&sessions, method, "/", headers) {
                Verdict::Pass => 200,
                Verdict::Refuse(status, _) => status,
                Verdict::Enter(..) => 303,
            };
            assert_eq!(found, *expected, "{method} {headers:?}");
        }
    }

    /// Contract: PG-01
    #[test]
    fn a_cookie_that_another_port_was_shown_opens_nothing() {
        let (sessions, links) = sessions();
        let host = ("host", "127.0.0.1:4000");
        let Verdict::Enter(set, key) = judge(&sessions, &Method::GET, &path(&links), &[host]) else {
            panic!("no session")
        };
        let Verdict::Enter(_, another) = judge(&sessions, &Method::GET, &path(&links), &[host]) else {
            panic!("no session")
        };
        let cookie = ("cookie", set.split(';').next().unwrap());
        let verdict = |target: &str, headers: Headers<'_>| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            sessions.judge(&Method::GET, &target.parse().unwrap(), &map, Needs::Key)
        };
        assert_eq!(verdict("/live", &[host, cookie, ("x-muster-key", &key)]), Verdict::Pass);
        assert_eq!(verdict(&format!("/live?watch=true&key={key}"), &[host, cookie]), Verdict::Pass);
        for (target, headers) in [
            ("/live", &[host, cookie][..]),
            ("/live?key=", &[host, cookie]),
            (&format!("/live?key={another}"), &[host, cookie]),
            ("/live", &[host, ("x-muster-key", &key)]),
        ] {
            assert!(matches!(verdict(target, headers), Verdict::Refuse(401, _)), "{target} {headers:?}");
        }
    }
}
