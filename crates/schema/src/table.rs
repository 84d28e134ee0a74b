//! The table of types: what every field of every served kind is called, of what type it is, and how
//! patches and field managers treat it.
//!
//! `tools/schema` writes the table from published crates; it is included compressed and read the
//! first time that it is needed. Nothing here knows a kind by name.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::sync::OnceLock;

/// Written by `tools/schema`.
const TABLE: &[u8] = include_bytes!("table.deflate");

/// A type's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u16);

/// The types, and which of them are kinds.
#[derive(Debug)]
pub struct Table {
    types: Vec<Type>,
    /// By kind, group and version: most kinds have a name of their own.
    kinds: BTreeMap<(&'static str, &'static str, &'static str), TypeId>,
    /// Every `group/version/kind` of the API, served or not; sorted.
    registered: Vec<&'static str>,
}

/// A struct of the API.
#[derive(Debug)]
pub struct Type {
    /// Its name in OpenAPI, such as `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// Its name in Go, such as `Pod`.
    pub go: &'static str,
    /// Its package in Go's error messages, such as `v1`.
    pub package: &'static str,
    /// Group, version and kind, for kinds.
    pub gvk: Option<(&'static str, &'static str, &'static str)>,
    /// Whether field managers own it only as a whole (`structType=atomic`).
    pub atomic: bool,
    /// Its unions and other markers, for OpenAPI.
    pub markers: &'static str,
    /// The structs that it embeds.
    pub inlines: Vec<Inline>,
    /// Its fields, embedded ones flattened, in the order in which Go declares them.
    pub fields: Vec<Field>,
    /// Which description line is its own; its fields' follow.
    pub prose: usize,
    /// Where the fields are by JSON name: an open hash table of places plus one.
    by_name: Vec<u8>,
    /// The fields that are written even when they are empty.
    always: Vec<u16>,
}

/// An embedded struct.
#[derive(Debug)]
pub struct Inline {
    /// Its name in Go, such as `VolumeSource`.
    pub go: &'static str,
    /// Its protobuf field number; 0 where protobuf does not have it.
    pub tag: u32,
    /// The embedded struct that embeds it in turn, as an index into [`Type::inlines`].
    pub within: Option<usize>,
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// Its JSON name.
    pub json: &'static str,
    /// Its name in Go.
    pub go: &'static str,
    /// Its path element in a set of fields: `f:` and the JSON name.
    pub path: String,
    /// The embedded struct that declares it, as an index into [`Type::inlines`].
    pub inline: Option<usize>,
    /// Its type.
    pub shape: Shape,
    /// Whether Go holds it by pointer: then an empty value is not the same as none.
    pub pointer: bool,
    /// Whether it is left out of JSON when it is empty.
    pub omitted: bool,
    /// Whether OpenAPI requires it.
    pub required: bool,
    /// Its protobuf field number.
    pub tag: u32,
    /// How a strategic merge patch merges it: `merge`, `replace`, `retainKeys`, comma separated.
    pub patch_strategy: &'static str,
    /// The key that a strategic merge patch matches list elements by; empty for none.
    pub merge_key: &'static str,
    /// How field managers share it, where it is a list or a map.
    pub topology: Topology,
    /// The keys of a [`Topology::Keyed`] list.
    pub list_keys: Vec<&'static str>,
    /// Every marker, `name=value` joined by semicolons, for OpenAPI.
    pub markers: &'static str,
}

/// How field managers share a list, a map or a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Lists as a whole, maps and structs by member.
    Default,
    /// As a whole.
    Atomic,
    /// A list of distinct scalars, each owned for itself.
    Set,
    /// A list of structs with keys.
    Keyed,
    /// By member, also where others share values of that type as a whole.
    Granular,
}

/// The type of a field, of a list's elements or of a map's values.
#[derive(Debug, Clone)]
pub struct Shape {
    /// What it is.
    pub kind: Kind,
    /// Its Go name, where it has one: `v1.RestartPolicy`.
    pub named: Option<&'static str>,
}

/// What a value is.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A string.
    String,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A boolean.
    Bool,
    /// A 64-bit float.
    Float,
    /// Bytes, in base64 in JSON.
    Bytes,
    /// A quantity, a string in JSON.
    Quantity,
    /// A time in RFC 3339, to the second.
    Time,
    /// A time in RFC 3339, to the microsecond.
    MicroTime,
    /// A number or a string.
    IntOrString,
    /// The field sets of `managedFields`: any JSON.
    Fields,
    /// Any JSON object.
    Raw,
    /// Any JSON value.
    Json,
    /// A struct.
    Struct(TypeId),
    /// One of the two fields of a struct, in JSON without the field's name: see [`Type::either`].
    Either(TypeId),
    /// A list.
    List(Box<Shape>),
    /// A map from strings.
    Map(Box<Shape>),
}

impl Table {
    /// The table, read when it is first asked for.
    #[must_use]
    pub fn get() -> &'static Self {
        static LOADED: OnceLock<Table> = OnceLock::new();
        LOADED.get_or_init(|| {
            let mut text = String::new();
            // Both steps work on bytes that are part of the program.
            flate2::read::DeflateDecoder::new(TABLE)
                .read_to_string(&mut text)
                .expect("the included table is deflated UTF-8");
            read(Box::leak(text.into_boxed_str()))
        })
    }

    /// The type of a kind. Delete options may name any group and version.
    #[must_use]
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        if kind == "DeleteOptions" {
            return self.named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        }
        self.kinds.get(&(kind, group, version)).copied()
    }

    /// Whether the API has a kind, though it may not be served here.
    #[must_use]
    pub fn registered(&self, group: &str, version: &str, kind: &str) -> bool {
        self.registered.binary_search(&format!("{group}/{version}/{kind}").as_str()).is_ok()
    }

    /// The type with an OpenAPI name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<TypeId> {
        let at = self.types.iter().position(|t| t.name == name)?;
        u16::try_from(at).ok().map(TypeId)
    }

    /// A type.
    #[must_use]
    pub fn ty(&self, id: TypeId) -> &Type {
        &self.types[usize::from(id.0)]
    }

    /// Every type, with its place.
    pub fn types(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        self.types.iter().zip(0u16..).map(|(ty, at)| (TypeId(at), ty))
    }
}

impl Type {
    /// The place of the field with this JSON name; names are case-sensitive.
    #[must_use]
    pub fn index(&self, json: &str) -> Option<usize> {
        let mask = self.by_name.len().wrapping_sub(1);
        let mut slot = slot(json) & mask;
        loop {
            let at = usize::from(*self.by_name.get(slot)?).checked_sub(1)?;
            if self.fields[at].json == json {
                return Some(at);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The field with this JSON name; names are case-sensitive.
    #[must_use]
    pub fn field(&self, json: &str) -> Option<&Field> {
        self.index(json).map(|at| &self.fields[at])
    }

    /// Of a type that JSON writes as one of its fields ([`Kind::Either`]): the field that a value of JSON is, by its
    /// first byte.
    #[must_use]
    pub fn either(&self, first: u8) -> Option<&Field> {
        self.fields.iter().find(|field| match field.shape.kind {
            Kind::Struct(_) => first == b'{',
            Kind::List(_) => first == b'[',
            Kind::Bool => matches!(first, b't' | b'f'),
            _ => false,
        })
    }

    /// The fields that are written even when they are empty.
    pub fn always(&self) -> impl Iterator<Item = &Field> {
        self.always.iter().map(|at| &self.fields[usize::from(*at)])
    }
}

impl Shape {
    /// Its Go type as an error message spells it: `[]v1.Container`.
    #[must_use]
    pub fn go_type(&self) -> String {
        self.to_string()
    }

    /// Whether Go holds it as a struct, which `omitempty` never leaves out.
    #[must_use]
    pub fn is_struct(&self) -> bool {
        matches!(
            self.kind,
            Kind::Struct(_)
                | Kind::Quantity
                | Kind::Time
                | Kind::MicroTime
                | Kind::IntOrString
                | Kind::Fields
                | Kind::Raw
                | Kind::Json
                | Kind::Either(_)
        )
    }
}

/// Its Go type, as [`Shape::go_type`].
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(named) = self.named {
            return f.write_str(named);
        }
        f.write_str(match &self.kind {
            Kind::String => "string",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Bool => "bool",
            Kind::Float => "float64",
            Kind::Bytes => "[]uint8",
            Kind::Quantity => "resource.Quantity",
            Kind::Time => "v1.Time",
            Kind::MicroTime => "v1.MicroTime",
            Kind::IntOrString => "intstr.IntOrString",
            Kind::Fields => "v1.FieldsV1",
            Kind::Raw => "runtime.RawExtension",
            Kind::Json => "v1.JSON",
            Kind::Struct(id) | Kind::Either(id) => {
                let ty = Table::get().ty(*id);
                return write!(f, "{}.{}", ty.package, ty.go);
            }
            Kind::List(inner) => return write!(f, "[]{inner}"),
            Kind::Map(inner) => return write!(f, "map[string]{inner}"),
        })
    }
}

/// Where a name begins to be looked for: cheap, and good enough for the names that fields have.
fn slot(name: &str) -> usize {
    let bytes = name.as_bytes();
    let byte = |at: usize| bytes.get(at).map_or(0, |b| usize::from(*b));
    let length = bytes.len();
    length
        .wrapping_mul(0x9e37)
        .wrapping_add(byte(0).wrapping_mul(31))
        .wrapping_add(byte(length / 2).wrapping_mul(7))
        .wrapping_add(byte(length.wrapping_sub(1)).wrapping_mul(131))
        .wrapping_add(byte(length.wrapping_sub(2)).wrapping_mul(17))
}

/// Reads the lines that `tools/schema` wrote.
fn read(text: &'static str) -> Table {
    let mut types: Vec<Type> = Vec::new();
    let mut registered: Vec<&'static str> = Vec::new();
    let mut lines_of_prose = 0;
    for line in text.lines() {
        let mut columns = line.split('\t');
        let kind = columns.next().unwrap_or_default();
        let mut next = || columns.next().unwrap_or_default();
        match (kind, types.last_mut()) {
            ("K", _) => registered.push(next()),
            ("T", _) => {
                types.push(type_line(next(), next(), next(), next(), lines_of_prose));
                lines_of_prose += 1;
            }
            ("I", Some(ty)) => {
                let (go, tag) = (next(), next().parse().unwrap_or(0));
                ty.inlines.push(Inline { go, tag, within: place(next()) });
            }
            ("F", Some(ty)) => {
                let columns = [next(), next(), next(), next(), next(), next(), next()];
                ty.fields.push(field_line(columns));
                lines_of_prose += 1;
            }
            _ => {}
        }
    }
    let mut kinds = BTreeMap::new();
    for (ty, at) in types.iter_mut().zip(0u16..) {
        if let Some((group, version, kind)) = ty.gvk {
            kinds.insert((kind, group, version), TypeId(at));
        }
        // At most half full, so that a look that fails ends soon.
        let mask = (ty.fields.len() * 2 + 2).next_power_of_two() - 1;
        ty.by_name = vec![0; mask + 1];
        for (field, at) in ty.fields.iter().zip(1u8..) {
            let mut slot = slot(field.json) & mask;
            while ty.by_name[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            ty.by_name[slot] = at;
        }
        ty.always = ty.fields.iter().zip(0u16..).filter(|(f, _)| !f.omitted).map(|(_, at)| at).collect();
    }
    registered.sort_unstable();
    Table { types, kinds, registered }
}

fn type_line(name: &'static str, gvk: &'static str, _listable: &str, markers: &'static str, prose: usize) -> Type {
    let (path, go) = name.rsplit_once('.').unwrap_or(("", name));
    let package = path.rsplit_once('.').map_or(path, |(_, p)| p);
    let mut parts = gvk.split('/');
    let gvk = match (parts.next(), parts.next(), parts.next()) {
        (Some(group), Some(version), Some(kind)) => Some((group, version, kind)),
        _ => None,
    };
    Type {
        name,
        go,
        package,
        gvk,
        atomic: markers.split(';').any(|m| m == "structType=atomic"),
        markers,
        inlines: Vec::new(),
        fields: Vec::new(),
        prose,
        by_name: Vec::new(),
        always: Vec::new(),
    }
}

fn field_line([json, go, inline, shape, flags, tag, markers]: [&'static str; 7]) -> Field {
    let marker = |name: &str| {
        markers.split(';').find_map(|m| m.strip_prefix(name).and_then(|m| m.strip_prefix('='))).unwrap_or_default()
    };
    let (shape, _) = shape_column(shape);
    let pointer = flags.contains('p');
    let omitted = flags.contains('z') || (flags.contains('e') && (pointer || !shape.is_struct()));
    let topology = match (marker("listType"), marker("mapType"), marker("structType")) {
        ("set", _, _) => Topology::Set,
        ("map", _, _) => Topology::Keyed,
        ("atomic", _, _) | (_, "atomic", _) | (_, _, "atomic") => Topology::Atomic,
        (_, "granular", _) | (_, _, "granular") => Topology::Granular,
        _ => Topology::Default,
    };
    Field {
        json,
        go,
        path: format!("f:{json}"),
        inline: place(inline),
        shape,
        pointer,
        omitted,
        required: flags.contains('r'),
        tag: tag.parse().unwrap_or(0),
        patch_strategy: marker("patchStrategy"),
        merge_key: marker("patchMergeKey"),
        topology,
        list_keys: marker("listMapKeys").split(',').filter(|k| !k.is_empty()).collect(),
        markers,
    }
}

/// An index, which the table counts from one; 0 for none.
fn place(column: &str) -> Option<usize> {
    column.parse::<usize>().ok().and_then(|n| n.checked_sub(1))
}

/// Reads a type in the table's notation, and gives what follows it.
fn shape_column(text: &'static str) -> (Shape, &'static str) {
    let (letter, rest) = text.split_at_checked(1).unwrap_or((text, ""));
    let (named, rest) = match rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
        Some((name, rest)) => (Some(name), rest),
        None => (None, rest),
    };
    let (kind, rest) = match letter {
        "i" => (Kind::Int32, rest),
        "l" => (Kind::Int64, rest),
        "b" => (Kind::Bool, rest),
        "f" => (Kind::Float, rest),
        "B" => (Kind::Bytes, rest),
        "q" => (Kind::Quantity, rest),
        "t" => (Kind::Time, rest),
        "u" => (Kind::MicroTime, rest),
        "o" => (Kind::IntOrString, rest),
        "F" => (Kind::Fields, rest),
        "R" => (Kind::Raw, rest),
        "J" => (Kind::Json, rest),
        "E" => {
            let (inner, rest) = shape_column(rest);
            match inner.kind {
                Kind::Struct(id) => (Kind::Either(id), rest),
                other => (other, rest),
            }
        }
        "@" => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, rest) = rest.split_at(end);
            (Kind::Struct(TypeId(number.parse().unwrap_or(0))), rest)
        }
        "[" => {
            let (inner, rest) = shape_column(rest);
            (Kind::List(Box::new(inner)), rest)
        }
        "{" => {
            let (inner, rest) = shape_column(rest);
            (Kind::Map(Box::new(inner)), rest)
        }
        _ => (Kind::String, rest),
    };
    (Shape { kind, named }, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-06
    #[test]
    fn every_field_is_found_by_its_name_and_no_other() {
        let table = Table::get();
        for (_, ty) in table.types() {
            for (at, field) in ty.fields.iter().enumerate() {
                assert_eq!(ty.index(field.json), Some(at), "{}.{}", ty.name, field.json);
                assert_eq!(ty.index(&field.json.to_uppercase()), None, "{}.{}", ty.name, field.json);
            }
            assert_eq!(ty.index(""), None);
            assert!(ty.fields.len() < 128, "{} has more fields than a decoder can remember", ty.name);
        }
        assert!(table.types().count() > 300);
    }

    /// Contract: API-04, API-12
    #[test]
    fn kinds_and_their_facts() {
        let table = Table::get();
        let pod = table.kind("", "v1", "Pod").map(|id| table.ty(id));
        assert_eq!(pod.map(|p| (p.name, p.go, p.package)), Some(("io.k8s.api.core.v1.Pod", "Pod", "v1")));
        let lease = table.kind("coordination.k8s.io", "v1", "LeaseList");
        assert!(lease.is_some());
        assert_eq!(table.kind("resource.k8s.io", "v1beta1", "ResourceClaim"), None);
        assert!(table.registered("resource.k8s.io", "v1beta1", "ResourceClaim"));
        assert!(!table.registered("apps", "v1", "Nonsense"));
        let spec = table.named("io.k8s.api.core.v1.PodSpec").map(|id| table.ty(id));
        let facts = |json: &str| {
            let field = spec.and_then(|s| s.field(json));
            field.map(|f| (f.go, f.shape.go_type(), f.pointer, f.omitted, f.tag, f.merge_key, f.topology))
        };
        assert_eq!(
            facts("containers"),
            Some(("Containers", "[]v1.Container".to_owned(), false, false, 2, "name", Topology::Keyed))
        );
        assert_eq!(
            facts("restartPolicy"),
            Some(("RestartPolicy", "v1.RestartPolicy".to_owned(), false, true, 3, "", Topology::Default))
        );
        assert_eq!(
            facts("activeDeadlineSeconds"),
            Some(("ActiveDeadlineSeconds", "int64".to_owned(), true, true, 5, "", Topology::Default))
        );
        assert_eq!(
            facts("nodeSelector"),
            Some(("NodeSelector", "map[string]string".to_owned(), false, true, 7, "", Topology::Atomic))
        );
    }
}
