//! The variables of admission's expressions: those of match conditions, policies and their messages (API-30).
//!
//! `object`, `oldObject` and `params` may be of any kind, so that they are of any type. What a policy calls
//! `variables` has the types of the expressions that define it, each of which may name those before it.

use super::schema::{FieldTable, ObjectType};
use super::types::OBJECT;
use super::{Beside, Program, Type, Variable, compile_with};
use crate::validation::expression::Wrong;

/// Which variables there are, beside those that there always are.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Whether there is `params`.
    pub has_params: bool,
    /// The variables of a policy; `None` where there is not even `variables`.
    pub variables: Option<Vec<(String, Type<'static>)>>,
}

/// What an expression is for: what it may name, and what it must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A condition: a truth value.
    Condition,
    /// A message: a text, made without an authorizer.
    Message,
    /// The value of an audit annotation: a text or null.
    Annotation,
    /// A variable: anything.
    Variable,
    /// The operations of a JSON patch.
    JsonPatch,
    /// What is applied to an object.
    Configuration,
}

impl Purpose {
    fn has_authorizer(self) -> bool {
        self != Self::Message
    }

    /// The names of what it may evaluate to; none where that is anything.
    fn returns(self) -> &'static [&'static str] {
        match self {
            Self::Condition => &["bool"],
            Self::Message => &["string"],
            Self::Annotation => &["string", "null_type"],
            Self::Variable => &[],
            Self::JsonPatch => &["list(JSONPatch)"],
            Self::Configuration => &[OBJECT],
        }
    }

    fn beside(self) -> Beside {
        if matches!(self, Self::JsonPatch | Self::Configuration) { Beside::Patches } else { Beside::Nothing }
    }
}

impl Environment {
    /// Compiles an expression; answers also its type.
    ///
    /// # Errors
    /// What is wrong with it, in the reference's words.
    pub fn compile(&self, text: &str, purpose: Purpose) -> Result<(Program, Type<'static>), Wrong> {
        let object = |fields| Type::Object(ObjectType::Fields(fields));
        let plain = |name, kind| Variable { name, kind, bounds: None };
        let mut known = vec![
            plain("object", Type::Dyn),
            plain("oldObject", Type::Dyn),
            plain("namespaceObject", object(&NAMESPACE)),
            plain("request", object(&REQUEST)),
        ];
        if self.has_params {
            known.push(plain("params", Type::Dyn));
        }
        if purpose.has_authorizer() {
            known.push(plain("authorizer", Type::Opaque("kubernetes.authorization.Authorizer")));
            known.push(plain("authorizer.requestResource", Type::Opaque("kubernetes.authorization.ResourceCheck")));
        }
        if let Some(fields) = &self.variables {
            known.push(plain("variables", Type::Object(ObjectType::Listed { name: "kubernetes.variables", fields })));
        }
        let checked = compile_with(text, &known, purpose.beside())
            .map_err(|why| Wrong::Invalid(format!("compilation failed: {why}")))?;
        let (found, wanted) = (checked.output.name(), purpose.returns());
        match wanted {
            [] => {}
            wanted if wanted.contains(&found.as_str()) => {}
            [one] => return Err(Wrong::Invalid(format!("must evaluate to {one} but got {found}"))),
            several => {
                let several = several.join(" ");
                return Err(Wrong::Invalid(format!("must evaluate to one of [{several}] but got {found}")));
            }
        }
        checked.program.instantiate("program").map_err(Wrong::Internal)?;
        Ok((checked.program, plain_type(&checked.output)))
    }

    /// Adds a variable of a type, to be named by the expressions after it.
    pub fn declare(&mut self, name: &str, kind: Type<'static>) {
        self.variables.get_or_insert_default().push((name.to_owned(), kind));
    }
}

/// The type that a variable keeps of its expression's: objects are of any type.
fn plain_type(kind: &Type<'_>) -> Type<'static> {
    match kind {
        Type::Null => Type::Null,
        Type::Bool => Type::Bool,
        Type::Int => Type::Int,
        Type::Uint => Type::Uint,
        Type::Double => Type::Double,
        Type::String => Type::String,
        Type::Bytes => Type::Bytes,
        Type::Timestamp => Type::Timestamp,
        Type::Duration => Type::Duration,
        Type::List(element) => Type::list(plain_type(element)),
        Type::Map(key, value) => Type::map(plain_type(key), plain_type(value)),
        _ => Type::Dyn,
    }
}

type Fields = &'static [(&'static str, fn() -> Type<'static>)];

const fn table(name: &'static str, fields: Fields) -> FieldTable {
    FieldTable { name, fields }
}

static REQUEST: FieldTable = table(
    "kubernetes.AdmissionRequest",
    &[
        ("kind", || Type::Object(ObjectType::Fields(&KIND))),
        ("resource", || Type::Object(ObjectType::Fields(&RESOURCE))),
        ("subResource", || Type::String),
        ("requestKind", || Type::Object(ObjectType::Fields(&KIND))),
        ("requestResource", || Type::Object(ObjectType::Fields(&RESOURCE))),
        ("requestSubResource", || Type::String),
        ("name", || Type::String),
        ("namespace", || Type::String),
        ("operation", || Type::String),
        ("userInfo", || Type::Object(ObjectType::Fields(&USER))),
        ("dryRun", || Type::Bool),
        ("options", || Type::Dyn),
    ],
);

static KIND: FieldTable = table(
    "kubernetes.GroupVersionKind",
    &[("group", || Type::String), ("version", || Type::String), ("kind", || Type::String)],
);

static RESOURCE: FieldTable = table(
    "kubernetes.GroupVersionResource",
    &[("group", || Type::String), ("version", || Type::String), ("resource", || Type::String)],
);

static USER: FieldTable = table(
    "kubernetes.UserInfo",
    &[
        ("username", || Type::String),
        ("uid", || Type::String),
        ("groups", || Type::list(Type::String)),
        ("extra", || Type::map(Type::String, Type::list(Type::String))),
    ],
);

static NAMESPACE: FieldTable = table(
    "kubernetes.Namespace",
    &[
        ("metadata", || Type::Object(ObjectType::Fields(&NAMESPACE_METADATA))),
        ("spec", || Type::Object(ObjectType::Fields(&NAMESPACE_SPEC))),
        ("status", || Type::Object(ObjectType::Fields(&NAMESPACE_STATUS))),
    ],
);

static NAMESPACE_METADATA: FieldTable = table(
    "kubernetes.NamespaceMetadata",
    &[
        ("name", || Type::String),
        ("generateName", || Type::String),
        ("namespace", || Type::String),
        ("labels", || Type::map(Type::String, Type::String)),
        ("annotations", || Type::map(Type::String, Type::String)),
        ("UID", || Type::String),
        ("creationTimestamp", || Type::Timestamp),
        ("deletionGracePeriodSeconds", || Type::Int),
        ("deletionTimestamp", || Type::Timestamp),
        ("generation", || Type::Int),
        ("resourceVersion", || Type::String),
        ("finalizers", || Type::list(Type::String)),
    ],
);

static NAMESPACE_SPEC: FieldTable = table("kubernetes.NamespaceSpec", &[("finalizers", || Type::list(Type::String))]);

static NAMESPACE_STATUS: FieldTable = table(
    "kubernetes.NamespaceStatus",
    &[
        ("conditions", || Type::list(Type::Object(ObjectType::Fields(&NAMESPACE_CONDITION)))),
        ("phase", || Type::String),
    ],
);

static NAMESPACE_CONDITION: FieldTable = table(
    "kubernetes.NamespaceCondition",
    &[
        ("status", || Type::String),
        ("type", || Type::String),
        ("lastTransitionTime", || Type::Timestamp),
        ("message", || Type::String),
        ("reason", || Type::String),
    ],
);
