/**
 * What an HTTP job may say of its call beyond URL, headers and body: what counts as success, what is kept of
 * the answer, how the call is signed, and by which credentials it is made. Every part may be left out; a
 * secret is always named, never held (secret-refs.ts).
 */
import { z } from 'zod'
import { safeText } from './common.ts'
import { isSecretHeader } from './http-headers.ts'
import { maxCapturedBytes } from './runs.ts'
import { secretRefSchema } from './secret-refs.ts'

/** Bytes of a response that are read to judge a field of it; a longer one cannot be judged. */
export const maxJudgedBytes = 1024 * 1024

const statusWords = /^([2-5])xx$|^([2-5]\d\d)-([2-5]\d\d)$/

/** `[first, last]` of a status, a hundred (`2xx`) or a range (`200-204`). */
export function statusRange(status: number | string): readonly [first: number, last: number] {
  if (typeof status === 'number') return [status, status]
  const [, hundred, first, last] = statusWords.exec(status) ?? []
  if (hundred !== undefined) return [Number(hundred) * 100, Number(hundred) * 100 + 99]
  return [Number(first), Number(last)]
}

const notStatus = 'is not a status from 200 to 599, a hundred such as "2xx", or a range such as "200-204"'
const statusSchema = z.union(
  [
    z.int({ error: notStatus }).min(200, { error: notStatus }).max(599, { error: notStatus }),
    z
      .string()
      .regex(statusWords, { error: notStatus })
      .refine((text) => statusRange(text)[0] <= statusRange(text)[1], { error: notStatus }),
  ],
  { error: notStatus },
)

const scalarSchema = z.union([safeText(1024), z.number(), z.boolean(), z.null()], {
  error: 'is not text, a number, true, false or null',
})

const fieldCriterionSchema = z
  .strictObject({
    pointer: z
      .string()
      .max(512)
      .regex(/^(?:\/(?:[^~/]|~[01])*)*$/, { error: 'is not a JSON pointer; write it like /status' })
      .meta({ description: 'RFC 6901 pointer into the response, which must be JSON; empty: all of it' }),
    equals: scalarSchema.optional(),
    in: z.array(scalarSchema).min(1).max(64).optional(),
  })
  .refine(({ equals, in: values }) => (equals === undefined) !== (values === undefined), {
    error: 'needs "equals", one value, or "in", a list of values, and not both',
  })

export const successSchema = z
  .strictObject({
    statuses: z
      .array(statusSchema)
      .min(1)
      .max(32)
      .optional()
      .meta({
        description: 'Statuses that mean success; 2xx if left out. Redirects are never followed',
        examples: [
          [200, 404],
          ['2xx', '300-304'],
        ],
      }),
    json: fieldCriterionSchema.optional().meta({
      description:
        `A field of the response that has to have one of these values too. At most ${maxJudgedBytes} bytes ` +
        'are read for it',
    }),
  })
  .refine(({ statuses, json }) => statuses !== undefined || json !== undefined, {
    error: 'says nothing; give "statuses" or "json", or leave it out',
  })
  .meta({ id: 'HttpSuccess', description: 'What counts as success; any 2xx if left out' })
export type HttpSuccess = z.infer<typeof successSchema>

export const captureSchema = z
  .strictObject({
    bodyBytes: z
      .int()
      .min(0)
      .max(maxCapturedBytes)
      .optional()
      .meta({
        description: `First bytes of the response that are kept; ${maxCapturedBytes} if left out, 0: none`,
      }),
    headers: z
      .array(
        z
          .string()
          .max(128)
          .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: 'is not a valid HTTP header name' })
          .refine((name) => !isSecretHeader(name), {
            error: 'may hold a secret and is not kept; leave it out',
          }),
      )
      .max(16)
      .optional()
      .meta({ description: 'Response headers that are kept; none if left out' }),
  })
  .meta({ id: 'HttpCapture', description: 'What is kept of the response' })
export type HttpCapture = z.infer<typeof captureSchema>

export const signingSchema = z
  .strictObject({
    keys: z
      .array(secretRefSchema)
      .min(1)
      .max(4)
      .meta({
        description:
          'Secrets that hold signing keys: `whsec_…` (HMAC-SHA256) or `whsk_…` (Ed25519). Each adds a ' +
          'signature, so that a key can be replaced without a gap: add the new one, let the targets learn ' +
          'it, take the old one away',
      }),
  })
  .meta({ id: 'HttpSigning', description: 'Signs each call by Standard Webhooks (webhook-signature)' })

const certificateText = (what: string) =>
  safeText(32_768, 1)
    .refine((text) => !/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text), {
      error: 'holds a private key; store that as a secret and name it in "privateKey"',
    })
    .refine((text) => /^\s*-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----\s*$/.test(text), {
      error: `is not ${what} in PEM; it begins with -----BEGIN CERTIFICATE-----`,
    })

export const tlsSchema = z
  .strictObject({
    certificate: certificateText('a certificate').optional().meta({
      description: 'Shown to the target (mutual TLS), PEM; intermediate ones behind it',
    }),
    privateKey: secretRefSchema.optional().meta({ description: 'Its private key, PEM without a passphrase' }),
    authority: certificateText('an authority').optional().meta({
      description: 'The only authority by which the certificate of the target is judged, PEM',
    }),
  })
  .refine(({ certificate, privateKey }) => (certificate === undefined) === (privateKey === undefined), {
    error: 'needs "certificate" and "privateKey" together',
  })
  .refine((tls) => tls.certificate !== undefined || tls.authority !== undefined, {
    error: 'says nothing; give "certificate" with "privateKey", or "authority", or leave it out',
  })
  .meta({ id: 'HttpTls', description: 'Client certificate and private authority; only with https' })
export type HttpTls = z.infer<typeof tlsSchema>

/** Checked with the URL of the target; see http-handler.ts. */
export const oauth2Schema = <Url extends z.ZodType<string, string>>(tokenUrl: Url) =>
  z
    .strictObject({
      tokenUrl,
      clientId: safeText(512, 1),
      clientSecret: secretRefSchema,
      scopes: z
        .array(
          z
            .string()
            .max(256)
            .regex(/^[\u0021\u0023-\u005b\u005d-\u007e]+$/, { error: 'is not a scope; it has no blanks' }),
        )
        .max(64)
        .optional(),
      audience: safeText(1024, 1).optional(),
      authentication: z
        .enum(['basic', 'body'])
        .default('basic')
        .meta({ description: 'How client id and secret are sent: by HTTP Basic, or in the body' }),
    })
    .meta({
      id: 'HttpOauth2',
      description:
        'Client credentials: a token of `tokenUrl` is sent as `Authorization: Bearer …`, kept until ' +
        'shortly before it ends, and fetched anew once where the target answers 401',
    })
