/**
 * Jobs: handler, retry policy, timeouts, delivery. A job is versioned: each change of its definition is a new
 * version.
 */
import { z } from 'zod'
import {
  durationMsSchema,
  idSchema,
  instantSchema,
  nameSchema,
  pageOf,
  pageQuery,
  safeText,
} from './common.ts'
import { gatherFields } from './gathering.ts'
import { limitFields } from './limits.ts'
import { pauseStateSchema } from './queues.ts'
import { retryChangeSchema, retryPolicySchema, runLimitFields } from './retry-policy.ts'
import { deliveries } from './states.ts'

const hourMs = 3_600_000

export const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

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

const headerName = z
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

const headerValue = z
  .string()
  .max(8192)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, { error: 'must not contain control characters or line breaks' })

/** Names that differ from one before them in case alone, each with that one. */
function repeatedNames(names: readonly string[]): (readonly [name: string, first: string])[] {
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

const shownUrlLength = 128
const hostWithPort = /^(?:[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\]):\d{1,5}(?:[/?#]|$)/i
const hostAlone = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_-]+)+\.?(?:[/?#]|$)/i

/** A URL of http or https as it was meant, short enough to be shown; `https://example.com/path` if unclear. */
const shownUrl = (url: string): string =>
  url.length <= shownUrlLength && URL.canParse(url) ? url : 'https://example.com/path'

function urlFault(text: string): string | undefined {
  if (hostWithPort.test(text) || hostAlone.test(text)) {
    return `has no scheme; put http:// or https:// before it: ${shownUrl(`http://${text}`)}`
  }
  if (!URL.canParse(text)) return 'is not an absolute URL; write it like https://example.com/path'
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return `has the scheme "${url.protocol.slice(0, -1).slice(0, 64)}"; only http and https are called`
  }
  if (url.username !== '' || url.password !== '') {
    return 'must not hold credentials; send them in an "Authorization" header'
  }
  if (/[\u0000-\u0020\u007f\\]/.test(text))
    return 'must not contain spaces, backslashes or control characters'
  if (!/^https?:\/\/[^/]/i.test(text)) {
    return `must have two slashes and the host behind "${url.protocol}"; write it as ${shownUrl(url.href)}`
  }
  if (url.hash !== '') return 'must not have a fragment (#…); it is never sent'
  return undefined
}

export const targetUrlSchema = z
  .string()
  .min(1)
  .max(2048)
  .superRefine((text, context) => {
    const fault = urlFault(text)
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault })
  })
  .meta({ examples: ['https://example.com/hooks/report'] })

export const httpHandlerSchema = z
  .strictObject({
    kind: z.literal('http'),
    url: targetUrlSchema,
    method: z.enum(httpMethods).default('POST'),
    headers: z
      .record(headerName, headerValue)
      .refine((headers) => Object.keys(headers).length <= 64, { error: 'at most 64 headers' })
      .superRefine((headers, context) => {
        for (const [name, first] of repeatedNames(Object.keys(headers))) {
          const message = `is the same header as "${first}": case does not count; keep one of them`
          context.addIssue({ code: 'custom', path: [name], message })
        }
      })
      .default({})
      .meta({
        description:
          `Answers show \`${secretMask}\` for values of headers that carry secrets (Authorization, Cookie, ` +
          '…-Token, …); sent back, it keeps the stored value while the target stays on the same origin.',
      }),
    body: safeText(262_144).optional().meta({
      description: 'Sent as it is. Without it the input of the run is sent as JSON (not for GET and HEAD).',
    }),
  })
  .refine((handler) => handler.body === undefined || !['GET', 'HEAD'].includes(handler.method), {
    error: 'GET and HEAD carry no body; remove it or use another method',
    path: ['body'],
  })
  .meta({ id: 'HttpHandler' })
export type HttpHandlerDefinition = z.infer<typeof httpHandlerSchema>

/** Code in a worker of the SDK, by its name: the run goes to workers that have it and serve the queue. */
export const functionHandlerSchema = z
  .strictObject({
    kind: z.literal('function'),
    name: nameSchema.meta({ description: 'Name of the function, as workers define it' }),
  })
  .meta({ id: 'FunctionHandler' })
export type FunctionHandlerDefinition = z.infer<typeof functionHandlerSchema>

const deliveryMeta =
  '`at_least_once`: after a lost worker or a shutdown the run is tried again, so a handler may be called ' +
  'twice; `idempotencyKey` is the same then. `at_most_once`: it is never called a second time; where ' +
  'nobody can know what the one call did, the run ends `failed` with the reason `outcome_unknown`'

export const jobDefinitionSchema = z
  .strictObject({
    handler: z.discriminatedUnion('kind', [httpHandlerSchema, functionHandlerSchema]),
    retry: retryPolicySchema.prefault({}),
    attemptTimeoutMs: durationMsSchema(24 * hourMs, 100).default(60_000),
    runDeadlineMs: runLimitFields.runDeadlineMs.default(null),
    startWithinMs: runLimitFields.startWithinMs.default(null),
    delivery: z.enum(deliveries).default('at_least_once').meta({ description: deliveryMeta }),
    queue: nameSchema.default('default'),
    priority: z
      .int()
      .min(-100)
      .max(100)
      .default(0)
      .meta({ description: 'Higher runs earlier, within the tenant' }),
    concurrency: limitFields.concurrency.default(null),
    rateLimit: limitFields.rateLimit.default(null),
    debounce: gatherFields.debounce.default(null),
    collect: gatherFields.collect.default(null),
  })
  .meta({ id: 'JobDefinition' })
export type JobDefinition = z.infer<typeof jobDefinitionSchema>

export const jobCreateSchema = z
  .strictObject({ name: nameSchema, description: safeText(1024).default(''), ...jobDefinitionSchema.shape })
  .meta({ id: 'JobCreate' })
export type JobCreate = z.infer<typeof jobCreateSchema>

export const jobSchema = z
  .strictObject({
    id: idSchema,
    name: nameSchema,
    description: z.string(),
    version: z.int(),
    ...jobDefinitionSchema.shape,
    paused: pauseStateSchema,
    createdAt: instantSchema,
    updatedAt: instantSchema,
  })
  .meta({ id: 'Job' })
export type Job = z.infer<typeof jobSchema>

/** As lists show it: without headers and body of the handler, which may be large. */
export const jobSummarySchema = z
  .strictObject({
    ...jobSchema.shape,
    handler: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('http'), url: targetUrlSchema, method: z.enum(httpMethods) }),
      functionHandlerSchema,
    ]),
  })
  .meta({ id: 'JobSummary' })
export type JobSummary = z.infer<typeof jobSummarySchema>

/**
 * Merge of the fields given, `retry` field by field and `handler` as a whole; whatever changes makes a new
 * version, and runs that exist keep theirs.
 */
export const jobUpdateSchema = z
  .strictObject({
    description: safeText(1024).optional(),
    handler: jobDefinitionSchema.shape.handler.optional(),
    retry: retryChangeSchema.optional(),
    attemptTimeoutMs: durationMsSchema(24 * hourMs, 100).optional(),
    runDeadlineMs: runLimitFields.runDeadlineMs.optional(),
    startWithinMs: runLimitFields.startWithinMs.optional(),
    delivery: z.enum(deliveries).optional(),
    queue: nameSchema.optional(),
    priority: z.int().min(-100).max(100).optional(),
    concurrency: limitFields.concurrency.optional(),
    rateLimit: limitFields.rateLimit.optional(),
    debounce: gatherFields.debounce.optional(),
    collect: gatherFields.collect.optional(),
  })
  .meta({ id: 'JobUpdate' })
export type JobUpdate = z.infer<typeof jobUpdateSchema>

export const jobListQuery = z.strictObject({ ...pageQuery, name: nameSchema.optional() })
export const jobPageSchema = pageOf(jobSummarySchema)
