/**
 * Settings of the Postgres that everything is kept in, and of a replica to read lists from, as parts of
 * schema.ts. What a connection string may say is in domain/database-url.ts.
 */
import { z } from 'zod'
import type { WantedServer } from '../domain/database-url.ts'
import { readDatabaseUrl } from '../domain/database-url.ts'
import { about, flag, oneOf, whole } from './fields.ts'

const forWrites: readonly (WantedServer | undefined)[] = [undefined, 'any', 'read-write', 'primary']

const databaseUrl = (purpose: 'writes' | 'reads') =>
  z.string({ error: 'is not text' }).superRefine((url, context) => {
    const read = readDatabaseUrl(url)
    const fault = 'fault' in read ? read.fault : purpose === 'reads' ? undefined : cannotWrite(read.wanted)
    if (fault !== undefined) context.addIssue({ code: 'custom', message: fault })
  })

function cannotWrite(wanted: WantedServer | undefined): string | undefined {
  if (forWrites.includes(wanted)) return undefined
  const fix = 'use read-write, or leave it out'
  return `asks for a server by target_session_attrs=${wanted} that takes no writes; ${fix}`
}

export const databaseFields = {
  databaseUrl: databaseUrl('writes')
    .optional()
    .meta(
      about(
        'Postgres 15 to 18 to use. Without it Belfry runs its own, embedded one. ' +
          'Of several hosts (`host-a:5432,host-b:5432`) the one that takes writes',
      ),
    ),
  databaseReadUrl: databaseUrl('reads')
    .optional()
    .meta(
      about('A streaming replica of it, for lists; what it cannot answer in time comes from `databaseUrl`'),
    ),
  databaseReadLagMs: whole(100, 600_000)
    .default(5_000)
    .meta(about('How far the replica may be behind; lists come from `databaseUrl` when it is more')),
  databasePoolSize: whole(6, 500)
    .default(16)
    .meta(
      about(
        'Connections of one process at most: up to four for hints, leases, elections and checks; ' +
          'of the rest one half for requests and one for runs',
      ),
    ),
  databasePreparedStatements: flag
    .default(true)
    .meta(about('Named prepared statements; turn off for PgBouncer before 1.21')),
  databaseHints: oneOf(['notify', 'local'])
    .default('notify')
    .meta(about('`local`: no LISTEN connection (PgBouncer); other processes notice by polling')),
}
