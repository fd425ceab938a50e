/**
 * The handler kind `http`: one call to a URL. What a job may say about the call is here; whom it may reach is
 * decided by the server (domain/egress), and what stands in the place of secrets by its secret store.
 */
import { z } from 'zod'
import { asyncTargetSchema } from './async-target.ts'
import { safeText } from './common.ts'
import { headerNameSchema, headerValueSchema, repeatedNames, secretMask } from './http-headers.ts'
import { captureSchema, oauth2Schema, signingSchema, successSchema, tlsSchema } from './http-options.ts'

export const httpMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

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

const named = (headers: Readonly<Record<string, string>>, name: string): boolean =>
  Object.keys(headers).some((each) => each.toLowerCase() === name)

export const httpHandlerSchema = z
  .strictObject({
    kind: z.literal('http'),
    url: targetUrlSchema,
    method: z.enum(httpMethods).default('POST'),
    headers: z
      .record(headerNameSchema, headerValueSchema)
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
    success: successSchema.optional(),
    capture: captureSchema.optional(),
    signing: signingSchema.optional(),
    oauth2: oauth2Schema(targetUrlSchema).optional(),
    tls: tlsSchema.optional(),
    async: asyncTargetSchema.optional(),
  })
  .refine((handler) => handler.body === undefined || !['GET', 'HEAD'].includes(handler.method), {
    error: 'GET and HEAD carry no body; remove it or use another method',
    path: ['body'],
  })
  .refine(({ tls, url }) => tls === undefined || /^https:/i.test(url), {
    error: 'is for https alone; change the URL or leave it out',
    path: ['tls'],
  })
  .refine(({ success, method }) => success?.json === undefined || method !== 'HEAD', {
    error: 'HEAD is answered without a body; use another method or judge by statuses alone',
    path: ['success', 'json'],
  })
  .refine(({ oauth2, headers }) => oauth2 === undefined || !named(headers, 'authorization'), {
    error: 'sets the header "Authorization"; take that out of "headers"',
    path: ['oauth2'],
  })
  .meta({ id: 'HttpHandler' })
export type HttpHandlerDefinition = z.infer<typeof httpHandlerSchema>
