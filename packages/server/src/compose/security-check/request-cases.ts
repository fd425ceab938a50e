/**
 * Cases about requests: credentials, bodies, types of content, names in a path. They go through the plugins
 * of the API, in an application without a database: whoever gets past them all has been let in.
 */
import { Buffer } from 'node:buffer'
import { createHmac, randomBytes } from 'node:crypto'
import { idSchema, jobCreateSchema, maxBodyBytes, runCreateSchema } from '@belfry/contract'
import Fastify, { type FastifyInstance } from 'fastify'
import { z } from 'zod'
import { systemClock } from '../../adapters/system/clock.ts'
import { answerTheRest } from '../../http/plugins/fallbacks.ts'
import { guardRoutes } from '../../http/plugins/access.ts'
import { takeJsonBodies } from '../../http/plugins/json-body.ts'
import { takeWholeBodies } from '../../http/plugins/whole-bodies.ts'
import { validatePart } from '../../http/validation.ts'
import type { StoredKey } from '../../ports/credentials.ts'
import { createAuthenticator, keyMint } from '../../security/credentials.ts'
import { countOf, type Input, isInput, type Judged } from './judged.ts'

export interface RequestRig {
  readonly app: FastifyInstance
  readonly key: string
  /** Looks at the database that a request for a credential would have made. */
  readonly lookups: () => number
  readonly close: () => Promise<void>
}

const unlimited = 1_000_000_000

export async function openRequestRig(): Promise<RequestRig> {
  const { key, prefix, secretHash } = keyMint.mint()
  let lookups = 0
  const stored = storedKey(secretHash)
  const authenticator = createAuthenticator({
    directory: {
      async findByPrefix(asked) {
        lookups += 1
        return asked === prefix ? stored : undefined
      },
      touch: async () => undefined,
    },
    clock: systemClock,
  })
  const routerOptions = { maxParamLength: 1_000_000 }
  const app = Fastify({ logger: false, bodyLimit: maxBodyBytes, routerOptions })
  takeJsonBodies(app)
  takeWholeBodies(app)
  answerTheRest(app)
  await guardRoutes(app, {
    authenticator,
    cookies: undefined,
    limits: {
      perKeyPerMinute: unlimited,
      perWorkerKeyPerMinute: unlimited,
      failuresPerMinute: unlimited,
      inFlightPerKey: unlimited,
      inFlightPerWorkerKey: unlimited,
    },
  })
  app.setValidatorCompiler<z.ZodType>(({ schema, httpPart }) => (data: unknown) => {
    return validatePart(schema, httpPart ?? 'body', httpPart === 'body' ? (data ?? {}) : data)
  })
  addRoutes(app)
  await app.ready()
  return { app, key, lookups: () => lookups, close: () => app.close() }
}

/** As the contract has them; who gets here was let in. */
function addRoutes(app: FastifyInstance): void {
  const letIn = async (): Promise<object> => ({})
  app.get('/v1/whoami', { config: { access: 'any_key' } }, letIn)
  app.post('/v1/jobs', { config: { access: 'job.write' }, schema: { body: jobCreateSchema } }, letIn)
  app.post('/v1/runs', { config: { access: 'run.start' }, schema: { body: runCreateSchema } }, letIn)
  const params = z.strictObject({ id: idSchema })
  app.get('/v1/runs/:id/log', { config: { access: 'run.read' }, schema: { params } }, letIn)
}

const id = '01900000-0000-7000-8000-000000000000'

function storedKey(secretHash: Uint8Array): StoredKey {
  return {
    keyId: id,
    tenantId: id,
    tenantName: 'case',
    tenantCreatedAtMs: 0,
    scopes: ['admin'],
    queues: null,
    secretHash,
    expiresInMs: null,
    principal: { kind: 'key', id, name: 'case' },
    role: null,
  }
}

/** What the Authorization header gets. */
export async function judgeToken(input: Input, caseId: string, rig: RequestRig): Promise<Judged> {
  const authorization = authorizationOf(input, caseId, rig.key)
  if (authorization === unknownToken) return { notApplicable: 'needs a server with keys and their history' }
  const before = rig.lookups()
  const answer = await rig.app.inject({
    method: 'GET',
    url: '/v1/whoami',
    headers: authorization === undefined ? {} : { authorization },
  })
  const status = String(answer.statusCode)
  if (answer.statusCode < 400) return { outcome: status }
  const looksLikeKey = /^bearer [a-z]+_[a-z0-9]+_?\w{20,}$/i.test(authorization ?? '')
  const outcome = looksLikeKey && rig.lookups() === before ? `${status}_without_db_lookup` : status
  return { outcome: fetches(input) ? `${status}_and_no_fetch` : outcome, code: codeOf(answer.body) }
}

/** A token that names a place to get keys from; there is nothing here that would look there. */
const fetches = ({ header }: Input): boolean =>
  isInput(header) && ['jku', 'x5u', 'jwk'].some((name) => name in header)

/** What cannot be made from here. */
const unknownToken = '(unknown)'

function authorizationOf(input: Input, caseId: string, key: string): string | undefined {
  const { authorization, header, claims, note, token, cookie } = input
  if (typeof authorization === 'string') return authorization.replace(/<a valid key>/i, key)
  const [, shown] = /^first (\d+) characters of a valid key/.exec(typeof note === 'string' ? note : '') ?? []
  if (shown !== undefined) return `Bearer ${key.slice(0, Number(shown))}`
  if (isInput(header) || isInput(claims)) return `Bearer ${jwtOf(header, claims)}`
  if (typeof note === 'string' && /jwt|HS256|RS256|EdDSA/i.test(`${caseId} ${note}`))
    return `Bearer ${jwtOf({ alg: 'HS256' }, { sub: 'admin' })}`
  if (note !== undefined || token !== undefined || cookie !== undefined) return unknownToken
  return Object.keys(input).length === 0 ? undefined : unknownToken
}

/** Signed with a key that nobody knows. */
function jwtOf(header: unknown, claims: unknown): string {
  const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const usual = { sub: 'admin', role: 'owner', exp: 4_102_444_800 }
  const signed = `${encode(header ?? { alg: 'HS256' })}.${encode(claims ?? usual)}`
  return `${signed}.${createHmac('sha256', randomBytes(32)).update(signed).digest('base64url')}`
}

export const isBodyCase = (input: Input): boolean =>
  ['body', 'contentType', 'contentEncoding', 'payloadBytes', 'depth'].some((name) => name in input)

/** A body, its type and its encoding, or a size. */
export async function judgeBody(input: Input, { app, key }: RequestRig): Promise<Judged> {
  const { body, contentType, contentEncoding, payloadBytes, depth } = input
  const sized =
    typeof payloadBytes === 'number'
      ? runOfBytes(countOf(payloadBytes, 64 * 1_048_576, 'payloadBytes'))
      : undefined
  const deep = typeof depth === 'number' ? nested(countOf(depth, 1_000_000, 'depth')) : undefined
  const payload = sized ?? deep ?? (typeof body === 'string' ? body : JSON.stringify(body ?? {}))
  const answer = await app.inject({
    method: 'POST',
    url: sized === undefined ? '/v1/jobs' : '/v1/runs',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': typeof contentType === 'string' ? contentType : 'application/json',
      ...(typeof contentEncoding === 'string' ? { 'content-encoding': contentEncoding } : {}),
    },
    payload,
  })
  return answerOf(answer)
}

const runOfBytes = (bytes: number): string => JSON.stringify({ job: 'case', input: 'x'.repeat(bytes) })
const nested = (depth: number): string => `{"name":${'['.repeat(depth)}${']'.repeat(depth)}}`

/** The name of a log or file in a path: only ids of runs are known there. */
export async function judgePath(name: string, { app, key }: RequestRig): Promise<Judged> {
  const url = `/v1/runs/${encodeURIComponent(name)}/log`
  const answer = await app.inject({ method: 'GET', url, headers: { authorization: `Bearer ${key}` } })
  return answerOf(answer)
}

function answerOf({ statusCode, body }: { statusCode: number; body: string }): Judged {
  if (statusCode < 400) return { outcome: 'allow' }
  return { outcome: String(statusCode), code: codeOf(body) }
}

function codeOf(body: string): string {
  const parsed: unknown = JSON.parse(body)
  return isInput(parsed) ? String(parsed['code']) : 'internal'
}
