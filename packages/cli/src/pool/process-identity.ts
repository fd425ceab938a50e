/**
 * Which process a number means. Numbers are given out again, so a process that was written down is known by
 * when it began as well.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

/** When the process began, as this machine tells it; undefined: there is none, or it has ended. */
export function beginningOf(pid: number): string | undefined {
  return existsSync('/proc/self/stat') ? fromProc(pid) : fromPs(pid)
}

/** Fields behind the name, which may hold anything: the state first, the start the twentieth. */
function fromProc(pid: number): string | undefined {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    return undefined
  }
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state] = fields
  // one that has ended and was not yet asked for
  return state === 'Z' || state === 'X' ? undefined : fields[19]
}

function fromPs(pid: number): string | undefined {
  try {
    const [state = '', ...began] = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
      .trim()
      .split(/\s+/)
    return state === '' || state.startsWith('Z') ? undefined : began.join(' ')
  } catch {
    return undefined
  }
}
