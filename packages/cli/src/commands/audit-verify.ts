/**
 * `belfry audit verify`: judges the chain of the audit log, from a server or from files alone, by public keys
 * and by copies that were kept elsewhere. Nothing here asks the server whether all is well; it must only have
 * as much as it says itself.
 */
import { createReadStream, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { KeyObject } from 'node:crypto'
import { type AuditRecord, auditRecordSchema, BelfryError } from '@belfry/contract'
import { readPublicKey } from '@belfry/contract/audit-chain'
import { type AuditVerdict, type AuditVerifier, createAuditVerifier } from '@belfry/contract/audit-verifier'
import type { Call } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import { auditFaultShape } from '../output/audit-shapes.ts'

export async function verify(call: Call): Promise<number | undefined> {
  const files = call.flags.list('file')
  const { keys, pinned } = await keysOf(call, files.length > 0)
  const verifier = createAuditVerifier(keys, call.io.now())
  for (const path of call.flags.list('kept')) await readRecords(path, (record) => verifier.witness(record))
  if (files.length > 0) for (const path of files) await readRecords(path, (record) => verifier.add(record))
  else await readServer(call, verifier)
  const verdict = verifier.finish()
  print(call, verdict)
  if (!pinned) {
    call.printer.say(
      'The keys came from the server itself, so whoever owns it could have made them: keep a copy of them ' +
        '(belfry audit status) and give it with --public-key.',
    )
  }
  return verdict.ok ? undefined : exitCodes.failed
}

async function readServer(call: Call, verifier: AuditVerifier): Promise<void> {
  const client = await call.client()
  const { tenant } = await client.whoami()
  // before the records: meanwhile there can only be more
  const { size, head, signedSize } = await client.audit.status()
  const tenantMs = Date.parse(tenant.createdAt)
  if (size > 0) verifier.claim({ tenantId: tenant.id, size, head, signedSize, tenantMs })
  for await (const record of client.audit.export()) verifier.add(record)
}

async function keysOf(call: Call, offline: boolean): Promise<{ keys: KeyObject[]; pinned: boolean }> {
  const given = call.flags.list('public-key')
  if (given.length > 0) return { keys: given.map(keyOf), pinned: true }
  if (offline) throw new UsageError('say by which key: --public-key, as base64 or the path of a PEM file')
  const { publicKeys } = await (await call.client()).audit.status()
  return { keys: publicKeys.map(({ publicKey }) => keyOf(publicKey)), pinned: false }
}

function keyOf(text: string): KeyObject {
  const key = readPublicKey(text) ?? readPublicKey(readText(text))
  if (key === undefined)
    throw new UsageError(`--public-key "${text}" is no Ed25519 public key, in base64 or PEM`)
  return key
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** JSON lines. One that a crash cut short is passed over where it is the last one. */
async function readRecords(path: string, take: (record: AuditRecord) => void): Promise<void> {
  let number = 0
  let cutShort: number | undefined
  const input = createReadStream(path)
  const opened = new Promise<void>((resolve, reject) => {
    input.once('open', () => resolve())
    input.once('error', (error) => reject(new UsageError(`${path} cannot be read: ${error.message}`)))
  })
  await opened
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    number += 1
    if (cutShort !== undefined) throw noRecord(path, cutShort)
    if (line.trim() === '') continue
    const record = recordOf(line)
    if (record === undefined) cutShort = number
    else take(record)
  }
}

function noRecord(path: string, line: number): BelfryError {
  const message = `Line ${line} of ${path} is no record of an audit log: it was cut short or changed.`
  return new BelfryError('invalid_request', message)
}

function recordOf(line: string): AuditRecord | undefined {
  try {
    return auditRecordSchema.safeParse(JSON.parse(line)).data
  } catch {
    return undefined
  }
}

function print(call: Call, verdict: AuditVerdict): void {
  if (call.printer.format !== 'table') return call.printer.value(verdict, [])
  if (verdict.faults.length > 0) {
    call.printer.list({ items: [...verdict.faults] }, auditFaultShape, '')
    call.printer.say(`The audit log was tampered with: ${verdict.faults.length} faults.`)
    return
  }
  for (const { kind, message } of verdict.doubts) call.printer.say(`Doubt (${kind}): ${message}.`)
  for (const { tenantId, first, last, signedSize, checkpoints } of verdict.tenants) {
    const open = last - signedSize
    const tail = open === 0 ? 'all signed' : `signed up to ${signedSize}; ${open} since then only chained`
    call.printer.say(
      `Tenant ${tenantId}: entries ${first} to ${last} whole, ${checkpoints} checkpoints, ${tail}.`,
    )
  }
  if (verdict.tenants.length === 0) call.printer.say('There is no entry yet.')
}
