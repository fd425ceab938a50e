/**
 * Puts on record what was refused: a right that the caller lacks (403), a thing that is not there for him
 * (404 of an id: nobody is told whether another tenant has it), a target that is not allowed, and a key that
 * is known but was wrong, revoked or expired (401). Beside the request and after its answer; of a kind once a
 * minute and no more than a bound (engine/audit-notes.ts). A key that nobody knows belongs to no tenant and
 * is counted with the failed attempts alone.
 */
import type { ErrorCode, RouteName } from '@belfry/contract'
import { routes } from '@belfry/contract'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { AuditCaller, AuditNotes } from '../../ports/audit.ts'
import type { KnownKeys } from '../../ports/credentials.ts'
import { callerOf, firstText, recordedAs } from '../audit-calls.ts'
import { keyOfHeader } from './access.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Code of the problem that was answered; null: none. */
    refusedAs: ErrorCode | null
  }
}

/** Looks for keys of refused callers in a second, at most: guesses must not cost a query each. */
const looksASecond = 20

const recordedCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['forbidden', 'not_found', 'invalid_target'])

export function recordRefusals(
  app: FastifyInstance,
  options: { readonly notes: AuditNotes; readonly knownKeys: KnownKeys },
): void {
  const { notes, knownKeys } = options
  const mayLook = createAllowance(looksASecond)
  app.decorateRequest('refusedAs', null)
  app.addHook('onResponse', async (request) => {
    const code = request.refusedAs
    if (code === null) return
    const { credential } = request
    if (credential !== null) {
      // of what has no id, "not found" is a mistake and no try
      if (!recordedCodes.has(code) || (code === 'not_found' && request.is404)) return
      note(credential.tenantId, code, request, callerOf(request, credential))
      return
    }
    const prefix = code === 'unauthenticated' ? prefixOf(request) : undefined
    if (prefix === undefined || !mayLook()) return
    const key = await knownKeys.byPrefix(prefix).catch(() => undefined)
    if (key === undefined) return
    const actor = { kind: 'key', id: key.keyId, name: key.name } as const
    const { ip: address, id: requestId } = request
    note(key.tenantId, code, request, { actor, keyId: key.keyId, address, requestId, claimedAtMs: null })
  })

  function note(tenantId: string, code: ErrorCode, request: FastifyRequest, caller: AuditCaller): void {
    const name = request.routeOptions.config.routeName
    if (name === undefined || !isRoute(name)) return
    const rule = recordedAs(name)
    const id = firstText(request.params)
    notes.note({
      tenantId,
      action: rule?.action ?? 'route.call',
      subject:
        rule === undefined
          ? { kind: 'route', id, name }
          : { kind: rule.subject, id: rule.subjectIn === 'answer' ? null : id, name: null },
      outcome: 'refused',
      code,
      caller,
      details: {
        route: `${routes[name].method} ${routes[name].path}`,
        ...(code === 'invalid_target' ? targetOf(request.body) : {}),
      },
    })
  }
}

/** The host that was refused, and nothing of its address that may hold a secret. */
function targetOf(body: unknown): { readonly target?: string } {
  const handler = isRecord(body) ? body['handler'] : undefined
  const url = isRecord(handler) ? handler['url'] : undefined
  return typeof url === 'string' && URL.canParse(url) ? { target: new URL(url).host.slice(0, 256) } : {}
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

const isRoute = (name: string): name is RouteName => Object.hasOwn(routes, name)

const prefixOf = ({ headers }: FastifyRequest): string | undefined =>
  /^bfy_([0-9a-z]{12})_/.exec(keyOfHeader(headers.authorization) ?? '')?.[1]

function createAllowance(aSecond: number): () => boolean {
  let sinceMs = -Infinity
  let taken = 0
  return () => {
    const nowMs = performance.now()
    if (nowMs - sinceMs >= 1_000) {
      sinceMs = nowMs
      taken = 0
    }
    taken += 1
    return taken <= aSecond
  }
}
