/**
 * The audit of a process: notes of what is refused, and, of a scheduler, what makes the chains, signs them
 * and sends them on. The key comes from the configuration, or, with the embedded Postgres, from its data
 * directory.
 */
import { createAuditFile } from '../adapters/audit/audit-file.ts'
import { createKafkaAudit } from '../adapters/kafka/kafka-audit.ts'
import type { Config } from '../config/schema.ts'
import type { AuditSigner } from '../domain/audit-links.ts'
import { createAuditExporter } from '../engine/audit-exporter.ts'
import { type AuditNoteKeeper, createAuditNotes } from '../engine/audit-notes.ts'
import { createAuditSealer } from '../engine/audit-sealer.ts'
import type { Elector } from '../engine/elector.ts'
import type { AuditSink } from '../ports/audit-log.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import {
  createPostgresAuditExports,
  createPostgresAuditInbox,
  createPostgresAuditSealing,
  readAuditLag,
} from '../postgres/audit-sealing.ts'
import type { Database } from '../postgres/database.ts'
import { auditSignerIn, readAuditSigner } from '../security/audit-signer.ts'
import type { StatusReport } from '../telemetry/ops-server.ts'
import type { Links } from './links.ts'

interface AuditParts {
  readonly db: Database
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
}

export const openAuditNotes = (parts: AuditParts): AuditNoteKeeper =>
  createAuditNotes({ ...parts, inbox: createPostgresAuditInbox(parts.db) })

/** Undefined: nothing is signed. Throws `invalid_config`. */
export function auditSigner({ auditKey, databaseUrl, dataDir }: Config): AuditSigner | undefined {
  if (auditKey !== undefined) return readAuditSigner(auditKey)
  return databaseUrl === undefined ? auditSignerIn(dataDir) : undefined
}

const alarmingWaitMs = 60_000

/** What `/readyz?verbose` tells of it. */
export const auditReport = (config: Config, db: Database): StatusReport => ({
  name: 'audit',
  async report() {
    const lag = await readAuditLag(db)
    const signs = config.auditKey !== undefined || config.databaseUrl === undefined
    const facts = { ...lag, signs }
    if (lag.waitingMs > alarmingWaitMs) {
      const seconds = Math.round(lag.waitingMs / 1_000)
      const message = `Entries of the audit have waited ${seconds} s for their place: does a scheduler run?`
      return { status: 'warn', message, facts }
    }
    return signs ? { status: 'ok', message: null, facts } : { status: 'warn', message: unsignedWords, facts }
  },
})

export const unsignedWords =
  'The audit log is chained and not signed, so whoever owns the database could make it anew: set ' +
  'BELFRY_AUDIT_KEY_FILE on every scheduler.'

/** Of a scheduler. */
export function auditServices(
  parts: AuditParts & { readonly config: Config; readonly links: Pick<Links, 'kafka'> },
  elector: Pick<Elector, 'heldShards'>,
): readonly Service[] {
  const { config, db, links } = parts
  const signer = auditSigner(config)
  const sealer = createAuditSealer({
    ...parts,
    elector,
    sealing: createPostgresAuditSealing(db),
    signer,
    checkpointMs: config.auditCheckpointMs,
    retentionDays: config.auditRetentionDays,
  })
  const sinks: AuditSink[] = []
  if (config.auditCopy !== undefined) sinks.push(createAuditFile(config.auditCopy))
  if (links.kafka !== undefined) sinks.push(createKafkaAudit(links.kafka))
  const exports = createPostgresAuditExports(db)
  const signedOnly = signer !== undefined
  return [
    sealer,
    ...sinks.map((sink) => createAuditExporter({ ...parts, elector, exports, sink, signedOnly })),
  ]
}
