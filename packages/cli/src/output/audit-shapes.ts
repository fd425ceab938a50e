/**
 * How entries of the audit log, its state
 * and its faults look to people.
 */
import type { AuditEntryView, AuditStatus } from '@belfry/contract'
import type { AuditFault } from '@belfry/contract/audit-verifier'
import type { Shape } from './printer.ts'
import { timeWithDistance } from './times.ts'

const actorWords = ({ actor }: AuditEntryView): string =>
  actor.kind === 'key' ? `key ${actor.name}` : actor.kind === 'system' ? `(${actor.name})` : actor.name

const subjectWords = ({ subject }: AuditEntryView): string =>
  `${subject.kind} ${subject.name ?? subject.id ?? ''}`.trimEnd()

const outcomeWords = ({ outcome, code }: AuditEntryView): string =>
  outcome === 'done' ? 'done' : `refused: ${code ?? ''}`

export const auditEntryShape: Shape<AuditEntryView> = {
  name: (entry) => entry.id,
  columns: [
    { title: 'AT', cell: (entry, clock) => timeWithDistance(entry.at, clock) },
    { title: 'WHO', cell: actorWords, flexible: true },
    { title: 'ACTION', cell: (entry) => entry.action },
    { title: 'WHAT', cell: subjectWords, flexible: true },
    { title: 'OUTCOME', cell: outcomeWords },
    { title: 'FROM', cell: (entry) => entry.address ?? '-' },
  ],
  fields: (entry, clock) => [
    ['At', timeWithDistance(entry.at, clock)],
    ['Who', actorWords(entry)],
    ['Action', entry.action],
    ['What', subjectWords(entry)],
    ['Outcome', outcomeWords(entry)],
    ['From', entry.address ?? '-'],
  ],
}

export const auditStatusShape: Shape<AuditStatus> = {
  name: () => 'audit',
  columns: [],
  fields: (status, clock) => [
    ['Entries', String(status.size)],
    [
      'Signed',
      status.signedAt === null ? 'no' : `${status.signedSize}, ${timeWithDistance(status.signedAt, clock)}`,
    ],
    ['Waiting', String(status.waiting)],
    ['Head', status.head ?? '-'],
    ...status.publicKeys.map(({ keyId, publicKey }): [string, string] => [`Key ${keyId}`, publicKey]),
  ],
}

export const auditFaultShape: Shape<AuditFault> = {
  name: (fault) => String(fault.seq),
  columns: [
    { title: 'FAULT', cell: (fault) => fault.kind },
    { title: 'ENTRY', cell: (fault) => String(fault.seq), align: 'right' },
    { title: 'WHAT', cell: (fault) => fault.message, flexible: true },
    { title: 'TENANT', cell: (fault) => fault.tenantId },
  ],
  fields: (fault) => [
    ['Fault', fault.kind],
    ['Entry', String(fault.seq)],
    ['What', fault.message],
  ],
}
