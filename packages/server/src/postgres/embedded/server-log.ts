/**
 * The log of the embedded server, `<dataDir>/postgres.log`. Postgres writes to the file itself (no pipe: a
 * busy or dead Belfry must never block a backend, and lines survive Belfry). The file is capped: at 10 MB
 * it becomes `postgres.log.1`. Before a start it is renamed; while Postgres has it open, it is copied in the
 * background and emptied in place, which is safe because every writer appends; lines of that instant may be
 * lost.
 */
import { closeSync, openSync, readSync, renameSync, statSync } from 'node:fs'
import { copyFile, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'

const maxLogBytes = 10 * 1024 * 1024
const checkEveryMs = 30_000

export type ServerLog = {
  readonly path: string
  /** Opens it for a child; the caller closes the descriptor after the spawn. */
  readonly open: () => number
  /** Where the log ends now, to read later what was added. */
  readonly position: () => number
  /** The last lines written after `position`. */
  readonly since: (position: number) => string
  readonly close: () => void
}

export function openServerLog(dataDir: string): ServerLog {
  const path = join(dataDir, 'postgres.log')
  if (isFull(statSync(path, { throwIfNoEntry: false }))) renameSync(path, `${path}.1`)
  closeSync(openSync(path, 'a', 0o600))
  let capping = false
  const timer = setInterval(() => {
    if (capping) return
    capping = true
    void capLog(path).finally(() => {
      capping = false
    })
  }, checkEveryMs)
  timer.unref()
  return {
    path,
    open: () => openSync(path, 'a', 0o600),
    position: () => statSync(path).size,
    since: (position) => tail(path, position),
    close: () => clearInterval(timer),
  }
}

function isFull(info: { readonly size: number } | undefined): boolean {
  return info !== undefined && info.size >= maxLogBytes
}

/** Never rejects: a full disk must not take the server down; the next check tries again. */
export async function capLog(path: string): Promise<void> {
  try {
    if (!isFull(await stat(path))) return
    await copyFile(path, `${path}.1`)
    await truncate(path, 0)
  } catch {
    // the next check tries again
  }
}

function tail(path: string, position: number): string {
  const size = statSync(path).size
  const from = Math.max(size < position ? 0 : position, size - 4096)
  const buffer = Buffer.alloc(Math.max(0, size - from))
  const descriptor = openSync(path, 'r')
  try {
    readSync(descriptor, buffer, 0, buffer.length, from)
  } finally {
    closeSync(descriptor)
  }
  return buffer.toString('utf8').trim().split('\n').slice(-15).join('\n')
}
