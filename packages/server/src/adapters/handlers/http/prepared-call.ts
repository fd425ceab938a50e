/**
 * From a job's handler to what can be sent: secrets are resolved, placeholders of headers filled, keys read.
 * Each once for an attempt, and nothing that was filled in is read again.
 *
 *   { resolve secrets } ─► { fill headers } ─► { read signing keys } ─► { client certificate }
 *
 * What a secret holds may not fit its place (a line break in a header, a key that is none): such a call is
 * not made, and the error names the secret, never its value.
 */
import type { HttpHandlerDefinition, RunError } from '@belfry/contract'
import { placeholdersOf, secretsOf } from '@belfry/contract'
import { readSigningKey, type SigningKey } from '@belfry/contract/signature'
import { secretValues } from '../../../domain/secret-mask.ts'
import { fill } from '../../../domain/template.ts'
import type { EgressTls } from '../../../ports/egress.ts'
import type { HandlerRequest } from '../../../ports/handler.ts'
import type { SecretSource } from '../../../ports/secrets.ts'

export interface PreparedCall {
  readonly headers: Readonly<Record<string, string>>
  readonly signingKeys: readonly SigningKey[]
  readonly tls: EgressTls | undefined
  /** Of `oauth2`. */
  readonly clientSecret: string | undefined
  /** To be masked in whatever is kept of the attempt. */
  readonly masked: readonly string[]
}

export interface CallFault extends RunError {
  readonly retryable: boolean
}

export type Preparation =
  | { readonly ok: true; readonly call: PreparedCall }
  | { readonly ok: false; readonly fault: CallFault }

type Values = ReadonlyMap<string, string>

const none: Values = new Map()
const refused = (code: string, message: string): Preparation => ({
  ok: false,
  fault: { code, message, retryable: false },
})

/** What HTTP can carry in a header; anything else would end it, or be sent as something else. */
const sendable = /^[\t\u0020-\u007e\u0080-\u00ff]*$/

/** What a handler says does not change from call to call, so it is looked through once. */
interface Plan {
  readonly secretNames: readonly string[]
  readonly templates: readonly (readonly [header: string, template: string])[]
  /** What was made of the same values before; undefined where it differs from run to run. */
  readonly prepared: WeakMap<Values, PreparedCall> | undefined
}

const plans = new WeakMap<HttpHandlerDefinition, Plan>()

function planOf(handler: HttpHandlerDefinition): Plan {
  const known = plans.get(handler)
  if (known !== undefined) return known
  const templates = Object.entries(handler.headers).filter(([, value]) => value.includes('{{'))
  const placeholders = templates.flatMap(([, template]) => placeholdersOf(template))
  const isFixed = placeholders.every(({ kind }) => kind === 'secret')
  const prepared = isFixed ? new WeakMap<Values, PreparedCall>() : undefined
  const plan = { secretNames: secretsOf(handler), templates, prepared }
  plans.set(handler, plan)
  return plan
}

export async function prepareCall(
  request: HandlerRequest,
  handler: HttpHandlerDefinition,
  source: SecretSource,
): Promise<Preparation> {
  const plan = planOf(handler)
  const names = plan.secretNames
  const { tenantId, jobId, runAs } = request
  const answer = names.length === 0 ? undefined : await source.resolve({ tenantId, jobId, handler, runAs })
  if (answer?.ok === false) return answer
  const values = answer?.values ?? none
  const known = plan.prepared?.get(values)
  if (known !== undefined) return { ok: true, call: known }
  const made = preparedOf(request, handler, plan, values)
  if (made.ok) plan.prepared?.set(values, made.call)
  return made
}

function preparedOf(
  request: HandlerRequest,
  handler: HttpHandlerDefinition,
  { secretNames: names, templates }: Plan,
  values: Values,
): Preparation {
  const missing = names.find((name) => !values.has(name))
  if (missing !== undefined) return refused('secret_missing', `the secret "${missing}" has no value`)
  const headers = filledHeaders(request, handler.headers, templates, values)
  if (typeof headers === 'string') return refused('invalid_request', headers)
  const signingKeys = readKeys(handler.signing, values)
  if (typeof signingKeys === 'string') return refused('signing_key_invalid', signingKeys)
  return {
    ok: true,
    call: {
      headers,
      signingKeys,
      tls: tlsOf(handler.tls, values),
      clientSecret: handler.oauth2 && values.get(handler.oauth2.clientSecret.secret),
      masked: [...values.values(), ...secretValues(headers)],
    },
  }
}

/** The headers, or why one of them cannot be sent. */
function filledHeaders(
  request: HandlerRequest,
  headers: HttpHandlerDefinition['headers'],
  templates: Plan['templates'],
  values: Values,
): Readonly<Record<string, string>> | string {
  if (templates.length === 0) return headers
  const { runId: id, attempt, scheduledForMs, idempotencyKey } = request
  const filled: Record<string, string> = { ...headers }
  for (const [name, template] of templates) {
    const result = fill(template, values, { id, attempt, scheduledForMs, idempotencyKey })
    if (!result.ok) return `the secret "${result.missing}" has no value`
    // a line break at the end is how files end, and means nothing in a header
    const text = result.text.trim()
    if (!sendable.test(text)) return unsendable(name, template)
    filled[name] = text
  }
  return filled
}

function unsendable(name: string, template: string): string {
  const secrets = placeholdersOf(template).flatMap((each) => (each.kind === 'secret' ? [each.name] : []))
  const what = 'a line break, a control character or a letter beyond Latin-1'
  return `the header "${name}" cannot be sent: what was filled in holds ${what}; check ${secrets.join(', ')}`
}

function readKeys(signing: HttpHandlerDefinition['signing'], values: Values): SigningKey[] | string {
  const keys: SigningKey[] = []
  for (const { secret } of signing?.keys ?? []) {
    const key = readSigningKey(values.get(secret) ?? '')
    if (key === undefined) {
      const forms = 'whsec_ and base64 of 24 to 64 bytes, or whsk_ and base64 of an Ed25519 key'
      return `the secret "${secret}" is not a signing key; it is ${forms}`
    }
    keys.push(key)
  }
  return keys
}

function tlsOf(tls: HttpHandlerDefinition['tls'], values: Values): EgressTls | undefined {
  if (tls === undefined) return undefined
  const { certificate, privateKey, authority } = tls
  const key = privateKey && values.get(privateKey.secret)
  return {
    ...(certificate === undefined ? {} : { certificate }),
    ...(key === undefined ? {} : { privateKey: key }),
    ...(authority === undefined ? {} : { authority }),
  }
}
