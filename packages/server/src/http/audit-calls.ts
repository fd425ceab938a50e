/**
 * What the audit says of a call (contract: audit-table.ts): who it was by the credential, from where, to
 * what. Of a body it takes the names of fields and a reason given in words; of an answer the id, the name,
 * the version and counts. Values stay out.
 */
import type { AuditRule, RouteName } from '@belfry/contract'
import { auditRuleOf } from '@belfry/contract'
import type { FastifyRequest } from 'fastify'
import type { AuditCaller, AuditDetails, AuditEntry, AuditNotes } from '../ports/audit.ts'
import type { Access, CommonTx } from '../ports/catalog.ts'
import type { Credential } from '../ports/credentials.ts'
import type { Answer } from './endpoint.ts'

type Recorded = Extract<AuditRule, { readonly action: string }>

export function recordedAs(name: RouteName): Recorded | undefined {
  const rule = auditRuleOf(name)
  return rule !== undefined && 'action' in rule ? rule : undefined
}

export function callerOf({ ip, id, headers }: FastifyRequest, credential: Credential): AuditCaller {
  const { principal, keyId } = credential
  const claimedAtMs = typeof headers.date === 'string' ? Date.parse(headers.date) : Number.NaN
  return {
    actor: { kind: principal.kind, id: principal.id, name: principal.name },
    keyId,
    address: ip,
    requestId: id,
    claimedAtMs: isInstant(claimedAtMs) ? claimedAtMs : null,
  }
}

/** Up to the year 9999: later ones are written with a sign, which the database does not read. */
const endOfTime = 253_402_300_800_000
const isInstant = (ms: number): boolean => ms >= 0 && ms < endOfTime

interface Done {
  readonly params: unknown
  readonly body: unknown
  readonly answer: {
    readonly body: unknown
    readonly version?: number | undefined
    readonly audited?: Answer<RouteName>['audited'] | undefined
  }
}

/** Puts the call on record, in its transaction. */
export function recordCall(tx: Pick<CommonTx, 'audit'>, name: RouteName, done: Done): void {
  const rule = recordedAs(name)
  if (rule === undefined) return
  const entry = entryOf(rule, done)
  tx.audit.record(entry)
  const tenantId = done.answer.audited?.alsoIn
  if (tenantId !== undefined) tx.audit.record({ ...entry, tenantId })
}

/**
 * A reading that is worth an entry has no transaction that writes: it is noted, as the same reading once a
 * minute.
 */
export function noteReading(notes: AuditNotes, name: RouteName, access: Access, done: Done): void {
  const rule = recordedAs(name)
  if (rule === undefined) return
  const { caller, tenantId } = access
  notes.note({ ...entryOf(rule, done), tenantId, outcome: 'done', ...(caller && { caller }) })
}

export function entryOf(rule: Recorded, { params, body, answer }: Done): AuditEntry {
  const named = subjectOf(rule, params, answer.body)
  const made = textIn(answer.body, 'id')
  const details: AuditDetails = {
    ...reasonIn(body),
    // of what is made anew they are all those that there are
    ...(named.isNew ? {} : fieldsOf(body)),
    ...(answer.version === undefined ? {} : { version: answer.version }),
    ...(made === null || made === named.id ? {} : { made }),
    ...(rule.action.endsWith('_many') ? countsIn(answer.body) : {}),
    ...answer.audited?.details,
  }
  const subjectName = answer.audited?.subjectName ?? named.name ?? textIn(body, 'name')
  return {
    action: rule.action,
    subject: { kind: rule.subject, id: answer.audited?.subjectId ?? named.id, name: subjectName },
    details,
  }
}

/** The path says it; where it does not, what was made. */
function subjectOf({ subject, subjectIn }: Recorded, params: unknown, answer: unknown) {
  const fromPath = subjectIn === 'answer' ? null : firstText(params)
  const name = textIn(answer, 'name') ?? textIn(answer, calledAfter[subject] ?? 'name')
  return { id: fromPath ?? textIn(answer, 'id'), name, isNew: fromPath === null }
}

/** What has no name of its own goes by what it is of. */
const calledAfter: Partial<Record<Recorded['subject'], string>> = {
  backfill: 'schedule',
  dead_letter: 'job',
  event: 'event',
  run: 'job',
  workflow_run: 'workflow',
}

const longestReason = 500

function reasonIn(body: unknown): AuditDetails {
  const reason = textIn(body, 'reason')
  return reason === null ? {} : { reason: reason.slice(0, longestReason) }
}

function fieldsOf(body: unknown): AuditDetails {
  const fields = isRecord(body) ? Object.keys(body).sort() : []
  return fields.length === 0 ? {} : { fields }
}

function countsIn(answer: unknown): AuditDetails {
  if (!isRecord(answer)) return {}
  return Object.fromEntries(
    Object.entries(answer).filter((pair): pair is [string, number] => Number.isSafeInteger(pair[1])),
  )
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const textIn = (value: unknown, key: string): string | null => {
  const found = isRecord(value) ? value[key] : undefined
  return typeof found === 'string' ? found : null
}

/** Routes that act on one thing name it first in their path. */
export const firstText = (params: unknown): string | null => {
  const [first] = isRecord(params) ? Object.values(params) : []
  return typeof first === 'string' ? first : null
}
