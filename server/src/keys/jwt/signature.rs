//! Verification of token signatures, with the cryptography library of TLS.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwkUtils, JwtSigner, JwtVerifier},
    errors::{ErrorKind, Result},
};
use ring::signature::{self as schemes, RsaPublicKeyComponents, UnparsedPublicKey};
use signature::{Error as Wrong, Verifier};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: sign,
    verifier_factory: verify,
    jwk_utils: JwkUtils::new_unimplemented(),
};

/// Installs this verification, unless a program that embeds this server has installed another.
pub(super) fn install() {
    PROVIDER.install_default().ok();
}

/// Fails, because this server signs nothing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the provider has it so")]
fn sign(_: &Algorithm, _: &jsonwebtoken::EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the provider has it so")]
fn verify(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let (algorithm, key) = (*algorithm, key.clone());
    if key.family().algorithms().contains(&algorithm) && scheme(algorithm).is_some() {
        return Ok(Box::new(SignatureVerifier { algorithm, key }));
    }
    Err(ErrorKind::InvalidAlgorithm.into())
}

/// Verifier of signatures with one key.
struct SignatureVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

enum Scheme {
    Rsa(&'static schemes::RsaParameters),
    Other(&'static dyn schemes::VerificationAlgorithm),
}

/// Returns the signature scheme of an algorithm; `None` for algorithms with shared secrets.
fn scheme(algorithm: Algorithm) -> Option<Scheme> {
    Some(match algorithm {
        Algorithm::RS256 => Scheme::Rsa(&schemes::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&schemes::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&schemes::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&schemes::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&schemes::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&schemes::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Other(&schemes::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Other(&schemes::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Other(&schemes::ED25519),
        _ => return None,
    })
}

impl Verifier<Vec<u8>> for SignatureVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Wrong> {
        let checked = match (scheme(self.algorithm), self.key.kind()) {
            (Some(Scheme::Rsa(scheme)), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                // Some issuers write zeros before the modulus.
                let zeros = n.iter().take_while(|byte| **byte == 0).count();
                let key = RsaPublicKeyComponents { n: &n[zeros..], e };
                key.verify(scheme, message, signature)
            }
            (Some(Scheme::Other(scheme)), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(scheme, key).verify(message, signature)
            }
            _ => return Err(Wrong::new()),
        };
        checked.map_err(|_| Wrong::new())
    }
}

impl JwtVerifier for SignatureVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::crypto::verify;

    use super::*;

    /// The example of RFC 7515, appendix A.2.
    const MODULUS: &str = concat!(
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJ",
        "PMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0",
        "LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uD",
        "Zlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2",
        "PAcDTW9gb54h4FRWyuXpoQ"
    );
    const MESSAGE: &str = concat!(
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9l",
        "eGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    );
    const SIGNATURE: &str = concat!(
        "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF",
        "5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK",
        "5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqt",
        "FZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrB",
        "p0igcN_IoypGlUPQGe77Rw"
    );

    #[test]
    fn an_rsa_signature_counts_with_its_own_algorithm_alone() {
        install();
        let key = DecodingKey::from_rsa_components(MODULUS, "AQAB").expect("a key");
        let is_good = |message: &str, algorithm| {
            verify(SIGNATURE, message.as_bytes(), &key, algorithm).unwrap_or(false)
        };
        assert!(is_good(MESSAGE, Algorithm::RS256));
        assert!(!is_good(&format!("{MESSAGE}x"), Algorithm::RS256));
        for other in [
            Algorithm::RS384,
            Algorithm::PS256,
            Algorithm::HS256,
            Algorithm::ES256,
            Algorithm::EdDSA,
        ] {
            assert!(!is_good(MESSAGE, other), "{other:?}");
        }
    }
}
