//! Writes the table and the descriptions, compressed.
//!
//! The table is lines of tab-separated columns: a `T` line begins a type, `I` lines name the structs
//! it embeds, `F` lines its fields; `K` lines name every kind that the API has, served or not.
//! `crates/schema/src/table.rs` reads it. The descriptions are one line for each `T` and `F` line, in
//! the same order.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::join::Type;
use crate::openapi::Definition;

/// Writes the table into one folder and the descriptions into another.
pub fn write(
    types: &[Type],
    definitions: &BTreeMap<String, Definition>,
    table_folder: &Path,
    prose_folder: &Path,
) -> Result<(), String> {
    let mut table = String::new();
    for definition in definitions.values() {
        if let Some((group, version, kind)) = &definition.gvk {
            table.push_str(&format!("K\t{group}/{version}/{kind}\n"));
            if definition.listable {
                table.push_str(&format!("K\t{group}/{version}/{kind}List\n"));
            }
        }
    }
    let mut prose = String::new();
    let index = |name: &str| {
        types
            .iter()
            .position(|t| t.name.to_lowercase() == name)
            .ok_or_else(|| format!("{name} is named but not written"))
    };
    for ty in types {
        let gvk = ty.gvk.as_ref().map_or_else(String::new, |(g, v, k)| format!("{g}/{v}/{k}"));
        table.push_str(&format!(
            "T\t{}\t{gvk}\t{}\t{}\n",
            ty.name,
            if ty.listable { "listable" } else { "" },
            ty.markers.join(";")
        ));
        line(&mut prose, &ty.description);
        for (name, tag, within) in &ty.inlines {
            table.push_str(&format!("I\t{name}\t{tag}\t{within}\n"));
        }
        for field in &ty.fields {
            let mut shape = String::new();
            let mut rest = field.shape.as_str();
            while let Some((before, after)) = rest.split_once('@') {
                let (name, after) = after.split_once(';').ok_or("a reference without an end")?;
                shape.push_str(&format!("{before}@{}", index(name)?));
                rest = after;
            }
            shape.push_str(rest);
            let flags: String =
                [('p', field.pointer), ('e', field.omitempty), ('z', field.omitzero), ('r', field.required)]
                    .iter()
                    .filter(|(_, set)| *set)
                    .map(|(c, _)| *c)
                    .collect();
            let markers: Vec<String> = field.markers.iter().map(|(k, v)| format!("{k}={v}")).collect();
            table.push_str(&format!(
                "F\t{}\t{}\t{}\t{shape}\t{flags}\t{}\t{}\n",
                field.json,
                field.go,
                field.inline,
                field.tag,
                markers.join(";")
            ));
            line(&mut prose, &field.description);
        }
    }
    fs::write(table_folder.join("table.deflate"), deflate(&table)?).map_err(|e| e.to_string())?;
    fs::write(prose_folder.join("descriptions.deflate"), deflate(&prose)?).map_err(|e| e.to_string())?;
    if std::env::args().any(|a| a == "--text") {
        print!("{table}");
    }
    Ok(())
}

fn line(out: &mut String, text: &str) {
    out.push_str(&text.replace('\n', "\u{1}"));
    out.push('\n');
}

fn deflate(text: &str) -> Result<Vec<u8>, String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).map_err(|e| e.to_string())?;
    encoder.finish().map_err(|e| e.to_string())
}
