//! JSON or protobuf: the encoding requested, and the one received.

use http::{HeaderMap, HeaderValue, header};
use muster_objects::protobuf;

use super::Form;

/// The encoding of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As text, which every server has.
    Json,
    /// As Kubernetes' protobuf, for the kinds that a server has built in.
    Protobuf,
}

impl Encoding {
    /// What an answer's `Content-Type` says it is. One that is neither is left to the reader of JSON to
    /// refuse.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(protobuf::MEDIA_TYPE) { Self::Protobuf } else { Self::Json }
    }

    /// The `Accept` header that prefers this encoding and takes JSON where there is no other.
    pub(super) fn accept(self, form: Form) -> HeaderValue {
        HeaderValue::from_static(match (self, form) {
            (Self::Json, Form::Full) => "application/json",
            (Self::Json, Form::Metadata) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::Json, Form::MetadataList) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::Protobuf, Form::Full) => "application/vnd.kubernetes.protobuf,application/json",
            (Self::Protobuf, Form::Metadata) => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::Protobuf, Form::MetadataList) => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_what_it_is() {
        for (content_type, encoding) in [
            ("application/vnd.kubernetes.protobuf", Encoding::Protobuf),
            ("application/vnd.kubernetes.protobuf;stream=watch", Encoding::Protobuf),
            ("Application/vnd.Kubernetes.protobuf ; stream=watch", Encoding::Protobuf),
            ("application/json", Encoding::Json),
            ("application/json;stream=watch", Encoding::Json),
            ("application/vnd.kubernetes.protobuf2", Encoding::Json),
            ("", Encoding::Json),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]);
            assert_eq!(Encoding::of(&headers), encoding, "{content_type}");
        }
        assert_eq!(Encoding::of(&HeaderMap::new()), Encoding::Json);
    }
}
