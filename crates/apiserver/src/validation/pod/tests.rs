use serde_json::{Value, json};

use super::*;
use crate::kinds::defaults;

