//! The authorizer: expressions that ask whether somebody may do something.

use std::fmt;

use super::{Outcome, error};
use crate::cel::Value;
use crate::validation::name::{is_dns1123_label, is_dns1123_subdomain};

/// Decides what may be done.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Whether what is asked may be done, by the one who sent the request or by a service account.
    fn decide(&self, asked: &Asked) -> Decision;
}

/// What is asked of an authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The namespace and name of the service account that is asked about, in place of the one who sent the request.
    pub service_account: Option<(String, String)>,
    /// A path that is no resource; `None` for a resource.
    pub path: Option<String>,
    /// What is to be done.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The resource's plural name.
    pub resource: String,
    /// The subresource; may be empty.
    pub subresource: String,
    /// The namespace; empty for the cluster.
    pub namespace: String,
    /// The object's name; may be empty.
    pub name: String,
}

/// What an authorizer says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be done.
    pub allowed: bool,
    /// Why; may be empty.
    pub reason: String,
    /// What went wrong; may be empty.
    pub error: String,
}

/// An authorizer on its way to a decision.
#[derive(Clone)]
pub enum Check<'a> {
    /// Nothing has been said yet.
    Authorizer(Question<'a>),
    /// A path was named.
    Path(Question<'a>),
    /// An API group was.
    Group(Question<'a>),
    /// A resource was.
    Resource(Question<'a>),
    /// The answer.
    Decision(Decision),
}

/// What is asked so far, and who is.
#[derive(Clone)]
pub struct Question<'a> {
    authorizer: &'a dyn Authorizer,
    asked: Asked,
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

impl<'a> Check<'a> {
    /// The variable `authorizer`.
    #[must_use]
    pub fn authorizer(authorizer: &'a dyn Authorizer) -> Self {
        Self::Authorizer(Question { authorizer, asked: Asked::default() })
    }

    /// The variable `authorizer.requestResource`: what the request itself is about.
    #[must_use]
    pub fn resource(authorizer: &'a dyn Authorizer, asked: Asked) -> Self {
        Self::Resource(Question { authorizer, asked })
    }

    /// What `type()` says of it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Path(_) => "kubernetes.authorization.PathCheck",
            Self::Group(_) => "kubernetes.authorization.GroupCheck",
            Self::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

pub(super) fn call<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let [Value::Check(check), args @ ..] = args else { return None };
    let mut texts = Vec::new();
    for arg in args {
        let Value::String(text) = arg else { return None };
        texts.push(&**text);
    }
    step(check, name, &texts)
}

fn step<'a>(check: &Check<'a>, name: &str, args: &[&str]) -> Option<Outcome<'a>> {
    let made = |check: Check<'a>| Some(Ok(Value::Check(std::sync::Arc::new(check))));
    let with = |question: &Question<'a>, change: &dyn Fn(&mut Asked)| {
        let mut question = question.clone();
        change(&mut question.asked);
        question
    };
    match (check, name, args) {
        (Check::Authorizer(_), "path", [path]) if path.trim().is_empty() => Some(error("path must not be empty")),
        (Check::Authorizer(question), "path", [path]) => {
            made(Check::Path(with(question, &|asked| asked.path = Some((*path).to_owned()))))
        }
        (Check::Authorizer(question), "group", [group]) => {
            made(Check::Group(with(question, &|asked| (*group).clone_into(&mut asked.group))))
        }
        (Check::Authorizer(question), "serviceAccount", [namespace, name]) => {
            if !is_dns1123_subdomain(name).is_empty() {
                return Some(error("Invalid service account name"));
            }
            if !is_dns1123_label(namespace).is_empty() {
                return Some(error("Invalid service account namespace"));
            }
            let account = ((*namespace).to_owned(), (*name).to_owned());
            made(Check::Authorizer(with(question, &|asked| asked.service_account = Some(account.clone()))))
        }
        (Check::Group(_), "resource", [resource]) if resource.trim().is_empty() => {
            Some(error("resource must not be empty"))
        }
        (Check::Group(question), "resource", [resource]) => {
            made(Check::Resource(with(question, &|asked| (*resource).clone_into(&mut asked.resource))))
        }
        (Check::Resource(question), "subresource", [subresource]) => {
            made(Check::Resource(with(question, &|asked| (*subresource).clone_into(&mut asked.subresource))))
        }
        (Check::Resource(question), "namespace", [namespace]) => {
            made(Check::Resource(with(question, &|asked| (*namespace).clone_into(&mut asked.namespace))))
        }
        (Check::Resource(question), "name", [name]) => {
            made(Check::Resource(with(question, &|asked| (*name).clone_into(&mut asked.name))))
        }
        // Roles know nothing of selectors: what they allow, they allow for all objects.
        (Check::Resource(question), "fieldSelector" | "labelSelector", [_]) => made(Check::Resource(question.clone())),
        (Check::Resource(question) | Check::Path(question), "check", [verb]) => {
            let question = with(question, &|asked| (*verb).clone_into(&mut asked.verb));
            made(Check::Decision(question.authorizer.decide(&question.asked)))
        }
        (Check::Decision(decision), "allowed", []) => Some(Ok(Value::Bool(decision.allowed))),
        (Check::Decision(decision), "reason", []) => Some(Ok(Value::text(decision.reason.as_str()))),
        (Check::Decision(decision), "errored", []) => Some(Ok(Value::Bool(!decision.error.is_empty()))),
        (Check::Decision(decision), "error", []) => Some(Ok(Value::text(decision.error.as_str()))),
        _ => None,
    }
}
