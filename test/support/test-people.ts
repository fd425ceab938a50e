// How people come into a test API: with cookies of https, and passwords hashed cheaply, so that a test with
// twenty sign-ins takes no half minute.
import type { SignInOptions } from '../../packages/server/src/engine/people/sign-ins.ts'
import { createSignIns } from '../../packages/server/src/engine/people/sign-ins.ts'
import type { PeopleOptions } from '../../packages/server/src/http/api.ts'
import { createSessionCookies } from '../../packages/server/src/http/session-cookies.ts'
import { createKeyDirectory } from '../../packages/server/src/postgres/catalog/key-store.ts'
import {
  createPeopleDirectory,
  createSessionDirectory,
} from '../../packages/server/src/postgres/catalog/people-store.ts'
import {
  createAuthenticator,
  createSessionAuthenticator,
  eitherAuthenticator,
} from '../../packages/server/src/security/credentials.ts'
import { realClock } from './real-clock.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createPasswords } from '../../packages/server/src/security/passwords.ts'
import { inviteMint, sessionMint } from '../../packages/server/src/security/session-tokens.ts'

export const testOrigin = 'https://belfry.test'

export function testPeople(
  parts: Pick<SignInOptions, 'catalog' | 'ids' | 'notes'> & {
    readonly db: Database
    readonly provider?: SignInOptions['provider']
    readonly publicUrl?: string | null
    readonly limits?: PeopleOptions['limits']
  },
): PeopleOptions {
  const { db, provider, publicUrl = testOrigin, limits = { perAccount: 1_000, perAddress: 1_000 } } = parts
  const signIns = createSignIns({
    catalog: parts.catalog,
    ids: parts.ids,
    notes: parts.notes,
    directory: createPeopleDirectory({ db }),
    passwords: createPasswords({ cost: { logN: 10, r: 8, p: 1 } }),
    sessions: sessionMint,
    invites: inviteMint,
    idleMs: 3_600_000,
    lifeMs: 86_400_000,
    ...(provider === undefined ? {} : { provider }),
  })
  const cookies = createSessionCookies({ publicUrl: publicUrl ?? undefined, listensOnLoopback: true })
  return { signIns, cookies, limits }
}

/** By key or by session, as a server has it. */
export const testAuthenticator = (db: Database) =>
  eitherAuthenticator(
    createAuthenticator({ directory: createKeyDirectory({ db }), clock: realClock }),
    createSessionAuthenticator({ directory: createSessionDirectory({ db }), clock: realClock }),
  )
