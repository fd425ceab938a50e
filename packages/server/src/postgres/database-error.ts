/**
 * What went wrong with the database, in Belfry's words. Pure: looks only at the error. SQL faults that mean
 * something to a caller (a taken name, a bad reference) are not classified here; the caller asks with
 * `violatedConstraint`.
 */
import { BelfryError } from '@belfry/contract'

export type DatabaseErrorCode =
  | 'database_unavailable'
  | 'database_read_only'
  | 'database_full'
  | 'database_timeout'
  | 'serialization_conflict'
  | 'shutting_down'

const bySqlState: Readonly<Record<string, DatabaseErrorCode>> = {
  '57P01': 'database_unavailable', // admin_shutdown
  '57P02': 'database_unavailable', // crash_shutdown
  '57P03': 'database_unavailable', // cannot_connect_now: starting, recovering, stopping
  '57P04': 'database_unavailable', // database_dropped: as in a restore
  '57P05': 'database_unavailable', // idle_session_timeout
  '25P03': 'database_unavailable', // idle_in_transaction_session_timeout: the connection is gone
  '53000': 'database_unavailable', // insufficient_resources
  '53200': 'database_unavailable', // out_of_memory
  '53300': 'database_unavailable', // too_many_connections
  // Of a server that was there before, these pass: a restore, a change of passwords, a failover. At the start
  // they do not; `refusesLogin` tells.
  '3D000': 'database_unavailable', // invalid_catalog_name: no such database
  '28000': 'database_unavailable', // invalid_authorization_specification
  '28P01': 'database_unavailable', // invalid_password
  '25006': 'database_read_only', // read_only_sql_transaction
  '53100': 'database_full', // disk_full
  '57014': 'database_timeout', // query_canceled: statement_timeout
  '55P03': 'database_timeout', // lock_not_available: lock_timeout
  '40001': 'serialization_conflict', // serialization_failure
  '40P01': 'serialization_conflict', // deadlock_detected
}

const networkCodes: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENOENT',
  'EACCES',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
])

/** Errors that the driver raises without a code. */
const byDriverWords: readonly (readonly [RegExp, DatabaseErrorCode])[] = [
  [/^Query read timeout/, 'database_timeout'],
  [/^timeout exceeded when trying to connect/, 'database_timeout'],
  [/^Cannot use a pool after calling end/, 'shutting_down'],
  [/^Connection terminated|^timeout expired|is not queryable$/, 'database_unavailable'],
  [/server does not support SSL connections/, 'database_unavailable'],
]

const words: Readonly<Record<DatabaseErrorCode, string>> = {
  database_unavailable: 'The database cannot be reached now; Belfry keeps trying. Try again in a moment.',
  database_read_only:
    'The database takes no writes now (a standby, or read-only mode). Try again when it is the primary.',
  database_full: 'The disk of the database is full, so nothing was written. Free some space, then try again.',
  database_timeout: 'The database did not answer in time, and the change was given up. Try again.',
  serialization_conflict:
    'Another change to the same rows got in the way, and nothing was written. Try again.',
  shutting_down: 'This server is shutting down and no longer uses the database. Try another one.',
}

/** Which of Belfry's codes an error from the driver or the server is; undefined when it is none of them. */
export function classifyDatabaseError(error: unknown): DatabaseErrorCode | undefined {
  if (!(error instanceof Error)) return undefined
  const code = codeOf(error)
  if (code !== undefined) {
    if (networkCodes.has(code)) return 'database_unavailable'
    if (isSqlState(code)) {
      return (
        bySqlState[code] ?? (code.startsWith('08') || isClosed(error) ? 'database_unavailable' : undefined)
      )
    }
  }
  if (error instanceof AggregateError) {
    return error.errors.map((each) => classifyDatabaseError(each)).find((each) => each !== undefined)
  }
  return byDriverWords.find(([pattern]) => pattern.test(error.message))?.[1]
}

/**
 * The BelfryError for an error of the database, with the original as cause; any other error is returned as
 * it is.
 */
export function toDatabaseError(error: unknown): unknown {
  if (error instanceof BelfryError) return error
  const code = classifyDatabaseError(error)
  return code === undefined ? error : new BelfryError(code, words[code], { cause: error })
}

/** Whether the connection can no longer be used after this error. */
export function breaksConnection(error: unknown): boolean {
  const code = classifyDatabaseError(error)
  if (code === 'database_unavailable') return true
  return code === 'database_timeout' && !(error instanceof Error && isSqlState(codeOf(error) ?? ''))
}

/** Whether the server knows no such login, password or database: waiting does not change that by itself. */
export function refusesLogin(error: unknown): boolean {
  return error instanceof Error && ['3D000', '28000', '28P01'].includes(codeOf(error) ?? '')
}

/** Whether the login lacks a right. */
export function isForbidden(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === '42501'
}

/**
 * The database takes no connections (ALLOW_CONNECTIONS false, or half dropped). Its code, object not in
 * prerequisite state, means many things; here it comes from the functions that let a connection in.
 */
function isClosed(error: Error): boolean {
  const { routine } = error as { routine?: unknown }
  return codeOf(error) === '55000' && (routine === 'CheckMyDatabase' || routine === 'InitPostgres')
}

/**
 * Name of the violated constraint when the error is a unique, foreign key or check violation; else
 * undefined.
 */
export function violatedConstraint(error: unknown): string | undefined {
  if (!(error instanceof Error) || !codeOf(error)?.startsWith('23')) return undefined
  const { constraint } = error as { constraint?: unknown }
  return typeof constraint === 'string' ? constraint : ''
}

function codeOf(error: Error): string | undefined {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}

function isSqlState(code: string): boolean {
  return /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]{4}$/.test(code)
}
