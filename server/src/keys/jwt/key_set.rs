//! Public keys of an issuer: a JSON Web Key Set.

use std::str::FromStr as _;

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;

/// The keys that may have signed a token.
#[derive(Debug)]
pub(super) struct KeySet(Vec<PublicKey>);

#[derive(Debug)]
struct PublicKey {
    id: Option<String>,
    key: DecodingKey,
    /// Algorithms that the key can be used with.
    algorithms: Vec<Algorithm>,
}

#[derive(Deserialize)]
struct KeySetJson {
    keys: Vec<Value>,
}

const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

impl KeySet {
    /// Parses a key set. Keys for other purposes, in particular shared secrets, are left out.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let written: KeySetJson = serde_json::from_slice(text)
            .map_err(|error| format!("it is not a JWK set: {error}"))?;
        let count = written.keys.len();
        let keys: Vec<PublicKey> = written.keys.into_iter().filter_map(public_key).collect();
        if keys.is_empty() {
            return Err(format!(
                "none of its {count} keys is a public key for signatures (RSA, P-256, P-384, Ed25519)"
            ));
        }
        Ok(Self(keys))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the key with this id, if it can be used with this algorithm. Without an id, returns
    /// the only key that can.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut signing = self
            .0
            .iter()
            .filter(|key| key.algorithms.contains(&algorithm))
            .filter(|key| id.is_none() || key.id.as_deref() == id);
        let first = signing.next()?;
        let is_certain = id.is_some() || signing.next().is_none();
        is_certain.then_some(&first.key)
    }
}

fn public_key(written: Value) -> Option<PublicKey> {
    let jwk: Jwk = serde_json::from_value(written).ok()?;
    let purpose = &jwk.common.public_key_use;
    let is_for_signatures = matches!(purpose, None | Some(PublicKeyUse::Signature));
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => RSA.to_vec(),
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            vec![Algorithm::ES256]
        }
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => {
            vec![Algorithm::ES384]
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        _ => return None,
    };
    if let Some(own) = jwk.common.key_algorithm {
        let own = Algorithm::from_str(&own.to_string()).ok()?;
        algorithms.retain(|algorithm| *algorithm == own);
    }
    if !is_for_signatures || algorithms.is_empty() {
        return None;
    }
    Some(PublicKey {
        key: DecodingKey::from_jwk(&jwk).ok()?,
        id: jwk.common.key_id,
        algorithms,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_public_keys_for_signatures_count() {
        let point = json!({
            "kty": "EC", "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        });
        let with = |more: Value| {
            let mut key = point.clone();
            let fields = more.as_object().expect("an object").clone();
            key.as_object_mut().expect("an object").extend(fields);
            key
        };
        let parse = |keys: &[Value]| KeySet::parse(json!({ "keys": keys }).to_string().as_bytes());
        for wrong in [
            json!({ "kty": "oct", "k": "c2VjcmV0", "alg": "HS256" }),
            with(json!({ "use": "enc" })),
            with(json!({ "alg": "RS256" })),
            with(json!({ "alg": "HS256" })),
            with(json!({ "crv": "P-521" })),
            json!({ "kty": "strange" }),
            json!("a key"),
        ] {
            assert!(parse(std::slice::from_ref(&wrong)).is_err(), "{wrong}");
        }
        let set = parse(&[
            with(json!({ "kid": "a" })),
            with(json!({ "kid": "b", "use": "sig" })),
        ]);
        let set = set.expect("two keys");
        assert!(set.find(Some("a"), Algorithm::ES256).is_some());
        assert!(set.find(Some("c"), Algorithm::ES256).is_none());
        for other in [Algorithm::HS256, Algorithm::ES384, Algorithm::RS256] {
            assert!(set.find(Some("a"), other).is_none());
        }
        assert!(
            set.find(None, Algorithm::ES256).is_none(),
            "it may be either"
        );
        let set = parse(std::slice::from_ref(&point)).expect("a key");
        assert!(set.find(None, Algorithm::ES256).is_some());
    }
}
