/**
 * What `belfry doctor` says of the audit log: whether it would be signed, by which key, and whether its file
 * can be written to. The key is read, and never shown.
 */
import { accessSync, constants } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from '../config/schema.ts'
import { keyIdOf } from '@belfry/contract/audit-chain'
import { readAuditSigner } from '../security/audit-signer.ts'
import { unsignedWords } from './auditing.ts'
import { type Diagnosis, wordsOf } from './diagnosis.ts'

export function examineAudit({
  auditKey,
  auditCopy,
  databaseUrl,
  kafkaBrokers,
}: Config): readonly Diagnosis[] {
  const found: Diagnosis[] = [examineKey(auditKey, databaseUrl)]
  if (auditCopy !== undefined) found.push(examineFile(auditCopy))
  else if (kafkaBrokers === undefined && databaseUrl !== undefined) found.push(nowhereElse)
  return found
}

const nowhereElse: Diagnosis = {
  name: 'audit_copy',
  status: 'warn',
  message: 'The audit log is kept in the database alone, where its end could be cut off unseen.',
  fix: 'Set BELFRY_AUDIT_COPY to a file outside of it, or KAFKA_BROKERS.',
}

function examineKey(auditKey: string | undefined, databaseUrl: string | undefined): Diagnosis {
  const name = 'audit'
  if (auditKey === undefined) {
    if (databaseUrl !== undefined) return { name, status: 'warn', message: unsignedWords, fix: makeKey }
    const message = 'The audit log is signed by the key that is kept in the data directory.'
    return { name, status: 'ok', message, fix: null }
  }
  try {
    const { publicKey } = readAuditSigner(auditKey)
    return {
      name,
      status: 'ok',
      message: `The audit log is signed by the key ${keyIdOf(publicKey)}.`,
      fix: null,
    }
  } catch (error) {
    return { name, status: 'fail', message: wordsOf(error), fix: makeKey }
  }
}

const makeKey =
  'Make one with "openssl genpkey -algorithm ed25519 -out audit-key.pem", readable by Belfry alone.'

function examineFile(path: string): Diagnosis {
  const name = 'audit_copy'
  try {
    accessSync(dirname(path), constants.W_OK)
    return { name, status: 'ok', message: `The audit log is appended to ${path}.`, fix: null }
  } catch (error) {
    const message = `The audit log cannot be appended to ${path}: ${wordsOf(error)}.`
    return { name, status: 'fail', message, fix: 'Make its directory, and let Belfry write there.' }
  }
}
