/**
 * A certificate of its own for the TLS targets of tests, for the name target.test and 127.0.0.1, valid for a
 * hundred years. It protects nothing: the key is public, and only tests trust it.
 */
export const targetCertificate = `-----BEGIN CERTIFICATE-----
MIIBoDCCAUegAwIBAgIUCME7lznQb3wPWlN/dreXa5MvTxcwCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLdGFyZ2V0LnRlc3QwIBcNMjYxMTI5MjMwODE1WhgPMjEyNjEx
MDUyMzA4MTVaMBYxFDASBgNVBAMMC3RhcmdldC50ZXN0MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAE/mKq7f036ICcYI5EDbwDVhiq5IsJ8UcZgrhJOHXiCEH1V+wG
3gn4tCgEEHKZO/1AG7bCtgTQ0dLtSC5Va+YS1qNxMG8wHQYDVR0OBBYEFHG+ZtQg
5Cro5Ztr++wu3NP+PoVGMB8GA1UdIwQYMBaAFHG+ZtQg5Cro5Ztr++wu3NP+PoVG
MBwGA1UdEQQVMBOCC3RhcmdldC50ZXN0hwR/AAABMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDRwAwRAIgPU2MUwysa0NZVH1psQaMH/Y5QSc1pcxK+XhfTs+t
49YCIA88tS3oIGuiH5WbTqFzIweQgj0sNgf0mdl5jI22fsoF
-----END CERTIFICATE-----
`

export const targetKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/dlL/sT5LV1/IAA1
aaDm35S2BKrzVFkNRPu3am04nIahRANCAAT+Yqrt/TfogJxgjkQNvANWGKrkiwnx
RxmCuEk4deIIQfVX7AbeCfi0KAQQcpk7/UAbtsK2BNDR0u1ILlVr5hLW
-----END PRIVATE KEY-----
`
