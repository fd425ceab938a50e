/**
 * Stops Postgres without ending it (SIGSTOP): the postmaster alone, so that nobody new is let in, or every
 * process of it.
 */
import type { Arena } from './arena.ts'

export interface Frozen {
  /** May be called again. */
  readonly thaw: () => void
}

export async function freeze(arena: Arena, onlyPostmaster: boolean): Promise<Frozen> {
  const { pid } = arena.postgres
  const others = await arena.rows<{ pid: number }>(
    'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()',
  )
  const pids = onlyPostmaster ? [pid] : [pid, ...others.map((row) => row.pid)]
  for (const each of pids) signal(each, 'SIGSTOP')
  let frozen = true
  return {
    thaw() {
      if (frozen) for (const each of pids) signal(each, 'SIGCONT')
      frozen = false
    },
  }
}

function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    // a backend may have ended meanwhile
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
