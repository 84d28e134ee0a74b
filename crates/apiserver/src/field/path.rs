//! A field's path, built on the stack while descending and written out only where there is an error.

use std::fmt;

/// A path such as `spec.containers[0].ports[1].name`.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Child(&'a str),
    Index(usize),
    Key(&'a str),
    Text(&'a str),
}

impl<'a> Path<'a> {
    /// The object itself, whose fields have paths of one name.
    pub const ROOT: Self = Self { parent: None, step: Step::Root };

    /// The path of a field of the object itself.
    #[must_use]
    pub const fn new(name: &'a str) -> Self {
        Self { parent: None, step: Step::Child(name) }
    }
    /// `self.name`
    #[must_use]
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Child(name) }
    }
    /// `self[index]`
    #[must_use]
    pub const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }
    /// `self[key]`
    #[must_use]
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Key(key) }
    }
    /// `self`, and a text right behind it.
    #[must_use]
    pub const fn text<'b>(&'b self, text: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Text(text) }
    }
    /// Whether it is that of the object itself.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Child(name) if self.parent.is_some_and(|parent| !parent.is_root()) => write!(f, ".{name}"),
            Step::Child(text) | Step::Text(text) => f.write_str(text),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> Self {
        path.to_string()
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-06
    #[test]
    fn paths_are_written_as_kubernetes_writes_them() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        assert_eq!(first.child("image").to_string(), "spec.containers[0].image");
        let limits = first.child("limits");
        assert_eq!(limits.key("example.com/gpu").to_string(), "spec.containers[0].limits[example.com/gpu]");
        assert_eq!(Path::ROOT.child("spec").child("a").text("{b}").to_string(), "spec.a{b}");
        assert_eq!(
            (Path::ROOT.to_string(), Path::new("").child("spec").to_string()),
            (String::new(), ".spec".to_owned())
        );
    }
}
