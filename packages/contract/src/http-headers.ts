/**
 * Headers of HTTP jobs: which names and values may be sent, and which of them carry secrets. The server
 * judges more of them than the contract does (domain/egress/header-rules.ts).
 */
import { z } from 'zod'

/** Headers that Belfry or the HTTP protocol sets; a job may not. */
export const reservedHeaders = [
  'connection',
  'content-length',
  'expect',
  'host',
  'idempotency-key',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'traceparent',
  'transfer-encoding',
  'upgrade',
] as const

export const headerNameSchema = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: 'is not a valid HTTP header name' })
  .refine((name) => !(reservedHeaders as readonly string[]).includes(name.toLowerCase()), {
    error: 'is set by Belfry or by the protocol; leave it out',
  })
  .refine((name) => !name.toLowerCase().startsWith('belfry-'), {
    error: 'headers that begin with "Belfry-" are set by Belfry; choose another name',
  })

export const headerValueSchema = z
  .string()
  .max(8192)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, { error: 'must not contain control characters or line breaks' })

/** Names that differ from one before them in case alone, each with that one. */
export function repeatedNames(names: readonly string[]): (readonly [name: string, first: string])[] {
  const firsts = new Map<string, string>()
  return names.flatMap((name) => {
    const first = firsts.get(name.toLowerCase())
    if (first === undefined) firsts.set(name.toLowerCase(), name)
    return first === undefined ? [] : [[name, first] as const]
  })
}

/**
 * What stands in answers for the value of a header that looks like a secret. A change that sends it back
 * keeps the stored value.
 */
export const secretMask = '***'

const secretParts = /authorization|cookie|token|secret|signature|passw|credential|apikey/i
const secretWords = /(?:^|[-_])(?:auth|key)(?:[-_]|$)/i

/** Whether the value of a header of this name is never shown. */
export const isSecretHeader = (name: string): boolean => secretParts.test(name) || secretWords.test(name)
