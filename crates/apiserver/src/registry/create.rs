//! Creating an object.

use muster_tree::Value;

use super::options::WriteOptions;
use super::services::Reserved;
use super::{Answer, Registry, Served, Version, deduplicate_owners, match_namespace, set_metadata, version_of};
use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::admission::{Admission, Write};
use crate::model::fields::{Fields as _, metadata};
use crate::model::{NameRule, Object, Part};
use crate::status::{ApiError, GroupResource};
use crate::storage::Refused;

/// How often a generated name that is taken is generated anew (API-14).
const NAME_ATTEMPTS: usize = 8;

impl Registry {
    /// Creates a decoded and defaulted object (API-12).
    ///
    /// # Errors
    /// What admission, validation or a taken name has against it.
    pub async fn create(
        &self,
        served: &Served,
        namespace: &str,
        mut object: Object,
        options: &WriteOptions,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, ApiError> {
        object.object_or_new("metadata");
        for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            set_metadata(&mut object, field, None);
        }
        match_namespace(served, &mut object, namespace)?;
        deduplicate_owners(&mut object, false, warnings);
        served.update_managed_fields(self, None, &mut object, &options.manager, "", self.clock.now());
        let write = self.creation(served, options);
        admission.complete(&write, &mut object, warnings).await?;
        // Webhooks may have set them.
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            set_metadata(&mut object, field, None);
        }
        deduplicate_owners(&mut object, true, warnings);
        self.check_escalation(served, (namespace, ""), options, &object, None)?;

        let generates = metadata(&object).text("name").is_empty() && !metadata(&object).text("generateName").is_empty();
        if !generates {
            return self.create_named(served, object, options, admission, None, warnings).await;
        }
        let mut attempt = 1;
        loop {
            let warned = warnings.len();
            match self.create_named(served, object.clone(), options, admission, None, warnings).await {
                Err(error) if error.reason == "AlreadyExists" && attempt < NAME_ATTEMPTS => {
                    warnings.truncate(warned);
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }

    /// A creation, as admission is told of it.
    pub(super) fn creation<'a>(&'a self, served: &'a Served, options: &'a WriteOptions) -> Write<'a> {
        Write { registry: self, served, part: Part::Main, live: None, user: &options.user }
    }

    /// Creates under the object's name, or under one generated now. Whoever was asked for an update only, of an object in a
    /// namespace, is asked for the creation here, as late as on the real server (API-31).
    pub(super) async fn create_named(
        &self,
        served: &Served,
        mut object: Object,
        options: &WriteOptions,
        admission: Admission<'_>,
        updated: Option<(&str, &str)>,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, ApiError> {
        set_metadata(&mut object, "creationTimestamp", Some(Value::from(self.now_text())));
        set_metadata(&mut object, "uid", Some(Value::from(self.generator.uid())));
        let prefix = metadata(&object).text("generateName");
        let generated = !prefix.is_empty();
        let named = generated && metadata(&object).text("name").is_empty();
        if named {
            let name = match served.kind.name_rule() {
                // As in the reference, nothing is put behind what is an address already.
                NameRule::Ip => prefix.to_owned(),
                _ => self.generator.name(prefix),
            };
            set_metadata(&mut object, "name", Some(Value::from(name)));
        }

        let reserved = self.allocate(served, &mut object, None, options.dry_run)?;
        self.note_requester(served, &mut object, &options.user);
        warnings.extend(served.kind.early_warnings(&object));
        served.kind.prepare_create(&mut object);
        served.kind.stamp(Part::Main, &mut object, None, self.clock.now());
        let mut errors = self.check_devices(served, Part::Main, &object, None, options);
        errors.extend(served.kind.validate_create(&object));
        if errors.is_empty() {
            errors.extend(self.check_parameters(served, &object, None, &options.user));
        }
        let name = metadata(&object).text("name").to_owned();
        if !errors.is_empty() {
            return Err(served.invalid_object(&object, &name, &errors));
        }
        warnings.extend(served.kind.warnings(&object, None));
        served.kind.canonicalize(&mut object);
        if let Some((namespace, name)) = updated {
            let GroupResource { group, resource } = served.group_resource();
            let asked =
                ResourceAttributes { verb: "create".into(), group, resource, namespace, name, ..Default::default() };
            self.authorizer.check(&options.user, &Attributes::Resource(asked))?;
        }
        admission.validate(&self.creation(served, options), &object, named, warnings).await?;

        let namespace = metadata(&object).text("namespace").to_owned();
        // One that is no number is taken for none.
        if !options.dry_run && matches!(version_of(&object), Ok(Version::At(_))) {
            return Err(ApiError::plain("resourceVersion should not be set on objects to be created"));
        }
        // A webhook that converts may take its time: quotas are held after it.
        let draft = if options.dry_run { None } else { Some(served.draft_to_fit(&mut object, None, options)?) };
        let held = crate::admission::quota::hold(self, served, Part::Main, &object, None)?;
        let Some(draft) = draft else {
            if let Some(found) = self.storage.get(served.id, &namespace, &name) {
                return Err(taken(served, &name, generated, &found));
            }
            drop(held);
            return Ok(Answer::Object(served.rehearsed(object)?));
        };
        match self.storage.create(served.id, draft) {
            Ok(entry) => {
                reserved.into_iter().for_each(Reserved::keep);
                self.note_expiry(served, &entry);
                if let Some(held) = held {
                    held.settle(self, served, &namespace);
                }
                Ok(Answer::Entry(entry))
            }
            Err(Refused::Exists(found)) => Err(taken(served, &name, generated, &found)),
            Err(Refused::Unwritten(error)) => Err(error.into()),
            // A create is refused for nothing else.
            Err(Refused::Missing | Refused::Changed) => Err(ApiError::modified(served.group_resource(), &name)),
        }
    }
}

fn taken(served: &Served, name: &str, generated: bool, found: &crate::storage::Entry) -> ApiError {
    let mut error = if generated {
        // Of the group in which it is stored, unlike what is said of a name that was not generated.
        let group = served.kind.stored_as().map_or(served.group_resource().group, |stored| stored.group);
        let resource = crate::status::GroupResource { group, ..served.group_resource() };
        ApiError::generated_name_conflict(resource, name)
    } else {
        ApiError::already_exists(served.group_resource(), name)
    };
    if metadata(&found.object()).contains_key("deletionTimestamp") {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}
