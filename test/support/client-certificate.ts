/**
 * A client certificate for tests of mutual TLS, valid for a hundred years and signed by itself. It protects
 * nothing: the key is public, and only tests trust it.
 */
export const clientCertificate = `-----BEGIN CERTIFICATE-----
MIIBgzCCASmgAwIBAgIUEFQbMDdGav0Z0nL39nLc8GwwLRcwCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLY2FsbGVyLnRlc3QwIBcNMjYxMTMwMTcwMzE3WhgPMjEyNjEx
MDYxNzAzMTdaMBYxFDASBgNVBAMMC2NhbGxlci50ZXN0MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAE15eec416gJPPSSQNpXoE2yGOKEgDJUIsS1rLuIRwYQ3JpZLO
lPecBwwrVpofyr14YyxZP96jeZIsrm2KVpdTZKNTMFEwHQYDVR0OBBYEFFGqKPvD
YxgBET0W91y5ix+jERRMMB8GA1UdIwQYMBaAFFGqKPvDYxgBET0W91y5ix+jERRM
MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAMuU6aMu9OmA00Vr
Tt5HFjmNX6kr6b/SSA9KAtZ4F0szAiBZv/7ijTkFtNb6S7O8YwgZz/XELmTjJg/K
ZK7fGot2tQ==
-----END CERTIFICATE-----
`

export const clientKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg9kIQt3R3FZQnI4RF
1v+0aBscjYcCXgz6FMhnquP73bKhRANCAATXl55zjXqAk89JJA2legTbIY4oSAMl
QixLWsu4hHBhDcmlks6U95wHDCtWmh/KvXhjLFk/3qN5kiyubYpWl1Nk
-----END PRIVATE KEY-----
`
