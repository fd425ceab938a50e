/**
 * The way in for people, as routes without a credential see it: sign-ins with their limits, and the cookies
 * that a session is kept in. Attempts are counted by account, whether it exists or not, and by address,
 * before any work is done for them; each process counts for itself.
 */
import { BelfryError } from '@belfry/contract'
import type { SignedInRecord, SignIns, Visitor } from '../ports/people.ts'
import { createFailedAttempts } from './failed-attempts.ts'
import type { SessionCookies } from './session-cookies.ts'

export interface SignInLimits {
  /** Failed attempts for one account in a quarter of an hour. */
  readonly perAccount: number
  /** Failed attempts from one address in a quarter of an hour. */
  readonly perAddress: number
}

const windowMs = 15 * 60_000

export interface PeopleDoor {
  readonly signIns: SignIns
  /** Undefined: this server keeps no session in a browser. */
  readonly cookies: SessionCookies | undefined
  /**
   * Throws `too_many_requests` where too many attempts failed before. Without an account, which only the
   * provider knows, they are counted by address alone.
   */
  attempt<T>(account: string | null, visitor: Visitor, work: () => Promise<T>): Promise<T>
}

export function createPeopleDoor(options: {
  readonly signIns: SignIns
  readonly cookies: SessionCookies | undefined
  readonly limits?: Partial<SignInLimits> | undefined
  readonly nowMs: () => number
}): PeopleDoor {
  const { signIns, cookies, nowMs } = options
  const limits = { perAccount: 10, perAddress: 50, ...options.limits }
  const accounts = createFailedAttempts({ limit: limits.perAccount, windowMs, nowMs })
  const addresses = createFailedAttempts({ limit: limits.perAddress, windowMs, nowMs })

  return {
    signIns,
    cookies,
    async attempt(account, { address }, work) {
      const refused = addresses.begin(address)
      if (refused !== undefined) throw tooMany(refused.waitMs)
      const ofAccount = account === null ? undefined : accounts.begin(account)
      if (ofAccount !== undefined) {
        // nothing was tried: others at that address do not pay for it
        addresses.takeBack(address)
        throw tooMany(ofAccount.waitMs)
      }
      const takeBack = (): void => {
        if (account !== null) accounts.takeBack(account)
        addresses.takeBack(address)
      }
      try {
        const done = await work()
        takeBack()
        return done
      } catch (error) {
        // an attempt that could not be judged is none
        if (!(error instanceof BelfryError) || error.code !== 'sign_in_failed') takeBack()
        throw error
      }
    },
  }
}

function tooMany(waitMs: number): BelfryError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1_000))
  const message = `Too many attempts to sign in failed; wait ${seconds} s, then try again.`
  return new BelfryError('too_many_requests', message, { retryAfterSeconds: seconds })
}

/** The session in a cookie or in the answer, as it was asked for. */
export function handOver(
  door: PeopleDoor,
  signedIn: SignedInRecord,
  as: 'cookie' | 'token',
): { readonly token: string | null; readonly headers: Readonly<Record<string, string>> } {
  if (as === 'token') return { token: signedIn.token, headers: {} }
  return { token: null, headers: { 'set-cookie': cookiesOf(door).session(signedIn.token) } }
}

/** Throws `sign_in_off` where a browser cannot be signed in. */
export function cookiesOf({ cookies }: PeopleDoor): SessionCookies {
  if (cookies !== undefined) return cookies
  const message =
    'Browsers cannot be signed in here: the server is reached over a network and does not know that TLS ' +
    'protects the way. Set publicUrl (BELFRY_PUBLIC_URL) to the https address at which people reach it.'
  throw new BelfryError('sign_in_off', message)
}
