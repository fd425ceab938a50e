// Where tests put the files of a database: in memory where Linux has room there, which is many times
// faster. Killing a process loses nothing in memory either; only a crash of the machine would.
import { mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pidExists } from '../../packages/server/src/postgres/embedded/process-identity.ts'

const wantedBytes = 2 * 1024 ** 3

/**
 * Makes an empty directory, and removes those of runs that were killed (their servers were stopped by the
 * watchdog).
 */
export function makeFastDirectory(name: string): string {
  const base = roomyMemory() ?? tmpdir()
  const ours = new RegExp(`^${name}-(\\d+)-`)
  for (const each of readdirSync(base)) {
    const pid = Number(ours.exec(each)?.[1])
    if (pid > 0 && !pidExists(pid)) rmSync(join(base, each), { recursive: true, force: true })
  }
  return mkdtempSync(join(base, `${name}-${process.pid}-`))
}

function roomyMemory(): string | undefined {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    return bavail * bsize > wantedBytes ? '/dev/shm' : undefined
  } catch {
    return undefined
  }
}
