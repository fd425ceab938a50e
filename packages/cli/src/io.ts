/**
 * What the command line takes from its surroundings: streams, environment, clock, fetch. `main.ts` gives the
 * process's own; tests give theirs, so that every command runs in-process.
 */
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { ServerModule } from './server-module.ts'

export type Stream = {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

export type Environment = Readonly<Record<string, string | undefined>>

export type Io = {
  readonly stdout: Stream
  readonly stderr: Stream
  readonly env: Environment
  readonly fetch: typeof fetch
  /** All of standard input, as text. */
  readonly readStdin: () => Promise<string>
  /** Milliseconds since 1970. */
  readonly now: () => number
  /**
   * For commands that stop in their own time (`dev`, `server`, `demo`): from here on Ctrl-C and SIGTERM fire
   * this signal.
   */
  readonly stopSignal: () => AbortSignal
  readonly loadServer: () => Promise<ServerModule>
}

/** Where people's settings are: XDG_CONFIG_HOME, else ~/.config. */
export function configHome(env: Environment): string {
  const given = env['XDG_CONFIG_HOME']
  if (given !== undefined && given.startsWith('/')) return given
  return join(env['HOME'] ?? homedir(), '.config')
}
