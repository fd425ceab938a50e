/**
 * Who may enter the embedded server: the database `belfry`, the login role `belfry` for the runtime (owns
 * nothing, inherits nothing, bypasses nothing), and, when it listens on loopback, a random password in a
 * file of mode 0600. Runs at every start and changes only what is missing.
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { createDatabase, createLoginRole, findAccess, setPassword } from '../statements/embedded.ts'

/** How to connect: `host` is the directory of the socket, which is trusted, so there is no password. */
export type EmbeddedConnection = {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
}

/** Where the embedded server says what a person should know. Messages hold no secrets. */
export type ServerLogger = (level: 'info' | 'warn' | 'error', message: string) => void

export async function prepareAccess(admin: EmbeddedConnection, password: string | undefined): Promise<void> {
  const client = new pg.Client({ ...admin, connectionTimeoutMillis: 30_000, query_timeout: 60_000 })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const found = await client.query<{ database: boolean; role: boolean }>(findAccess)
    if (found.rows[0]?.role !== true) await client.query(createLoginRole)
    if (found.rows[0]?.database !== true) await client.query(createDatabase)
    if (password === undefined) return
    for (const role of ['belfry', 'postgres'] as const) {
      await client.query(setPassword(role, pg.escapeLiteral(password)))
    }
  } finally {
    await client.end()
  }
}

/** The password for loopback connections: made once, kept in `<dataDir>/postgres-password`. */
export function tcpPassword(dataDir: string): { readonly value: string; readonly file: string } {
  const file = join(dataDir, 'postgres-password')
  try {
    const value = readFileSync(file, 'utf8').trim()
    chmodSync(file, 0o600)
    if (value !== '') return { value, file }
  } catch {
    // The first start with a port: made below.
  }
  const value = randomBytes(24).toString('base64url')
  writeFileSync(`${file}.new`, `${value}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return { value, file }
}
