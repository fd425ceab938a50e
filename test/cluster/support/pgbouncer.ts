/**
 * A real PgBouncer in transaction mode in front of a Postgres at a TCP port, with far fewer connections to
 * the database than it takes from clients. It refuses to be root, so as root it runs as the user of Postgres.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  chooseRunAs,
  makePrivateDirectory,
  replaceFile,
  spawnAs,
} from '../../../packages/server/src/postgres/embedded/unprivileged.ts'
import { eventually } from '../../support/running.ts'
import { freePort } from './arena.ts'

export interface PgBouncer {
  readonly port: number
  readonly log: () => string
  readonly stop: () => Promise<void>
}

export interface PgBouncerOptions {
  readonly executable: string
  /** Data directory of the Postgres behind it. */
  readonly dataDir: string
  readonly port: number
  readonly logins: Readonly<Record<string, string>>
  /** Connections to a database, for each login. */
  readonly poolSize: number
}

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`

export async function startPgBouncer(options: PgBouncerOptions): Promise<PgBouncer> {
  const directory = mkdtempSync(join(tmpdir(), 'belfry-pgbouncer-'))
  const runAs = chooseRunAs(options.dataDir)
  makePrivateDirectory(directory, runAs)
  const owner = runAs ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  const port = await freePort()
  const users = Object.entries(options.logins).map(([name, secret]) => `${quoted(name)} ${quoted(secret)}\n`)
  replaceFile(join(directory, 'users.txt'), users.join(''), owner)
  const settings = [
    '[databases]',
    `* = host=127.0.0.1 port=${options.port}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = scram-sha-256',
    `auth_file = ${join(directory, 'users.txt')}`,
    'pool_mode = transaction',
    `default_pool_size = ${options.poolSize}`,
    'max_client_conn = 400',
  ]
  replaceFile(join(directory, 'pgbouncer.ini'), `${settings.join('\n')}\n`, owner)
  const child = spawn(options.executable, [join(directory, 'pgbouncer.ini')], {
    stdio: ['ignore', 'ignore', 'pipe'],
    ...spawnAs(runAs),
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text))
  const ended = once(child, 'close')
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    await ended
    rmSync(directory, { recursive: true, force: true })
  }
  await eventually(() => answers(port), 'PgBouncer listens', 10_000).catch(async (error: unknown) => {
    await stop()
    throw new Error(`${String(error)}: ${log}`)
  })
  return { port, log: () => log, stop }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.end())
  })
}
