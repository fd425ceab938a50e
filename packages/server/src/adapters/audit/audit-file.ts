/**
 * The audit as a file of JSON lines that is only appended to, and is on disk before it counts as written. A
 * line that a crash cut short is ended, so that what follows it stands on lines of its own.
 */
import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { BelfryError } from '@belfry/contract'
import type { AuditSink } from '../../ports/audit-log.ts'

const newline = 0x0a

export function createAuditFile(path: string): AuditSink {
  return {
    // without the host: where those come and go, each new one would begin the file anew
    name: `file:${resolve(path)}`,
    up: true,
    async write(records) {
      const lines = records.map((record) => `${JSON.stringify(record)}\n`).join('')
      try {
        await append(path, lines)
      } catch (error) {
        const message = `auditCopy: ${path} cannot be written to; see that its folder is there, and who may.`
        throw new BelfryError('invalid_config', message, { cause: error })
      }
    },
  }
}

async function append(path: string, lines: string): Promise<void> {
  const file = await open(path, 'a+', 0o640)
  try {
    const { size } = await file.stat()
    const last = Buffer.alloc(1)
    if (size > 0) await file.read(last, 0, 1, size - 1)
    const cutShort = size > 0 && last[0] !== newline
    await file.appendFile(cutShort ? `\n${lines}` : lines)
    await file.datasync()
  } finally {
    await file.close()
  }
}
