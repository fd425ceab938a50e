/**
 * Whether the login of DATABASE_URL can do nothing by itself, as it should: what protects one tenant from
 * another holds for Belfry's roles only, and a login that has rights of its own is one mistake away from
 * using them. Says so in words; it is no reason not to start, because small installations have one login.
 */
import pg from 'pg'
import type { Database } from './database.ts'
import type { LoginRow } from './statements/migrate.ts'
import { describeLogin, grantRoles, withhold } from './statements/migrate.ts'

/** A warning for people; undefined where the login is as it should be. Throws `database_*`. */
export async function loginWarning(db: Database): Promise<string | undefined> {
  const [row] = await db.asLogin(describeLogin, [])
  const fault = row === undefined ? undefined : faultOf(row)
  if (row === undefined || fault === undefined) return undefined
  return (
    `The login "${row.login}" of DATABASE_URL ${fault}. Belfry works, but row-level security protects ` +
    'tenants only where it takes a role. See "Roles" in docs/how-to/own-postgres.md.'
  )
}

function faultOf(row: LoginRow): string | undefined {
  const login = pg.escapeIdentifier(row.login)
  if (row.superuser) return 'is a superuser; let servers run as a login that owns nothing'
  if (row.bypasses) return `bypasses row-level security; run: ${withhold(login, 'BYPASSRLS')}`
  if (row.owns) return "owns Belfry's tables; let servers run as another login that owns nothing"
  if (row.inherits.length === 0) return undefined
  const roles = row.inherits.join(', ')
  const fix = row.selective ? grantRoles(roles, login, true) : withhold(login, 'INHERIT')
  return `has the rights of ${roles} also where it has not taken them; run: ${fix}`
}
