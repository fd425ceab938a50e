/**
 * Keeps a worker's session alive where the event loop of the process may be blocked: by functions of a
 * program that Belfry is embedded in. One session at a time.
 */

export interface LeaseKeeper {
  /** Renews this session from now on, and no other. `onFailed`: what renews it ended, and is made again. */
  hold(sessionId: string, leaseMs: number, onFailed: (error: Error, retryInMs: number) => void): void
  /** Renews nothing any more. */
  drop(): void
  /** When the call that last renewed it was sent, on this process's monotonic clock; undefined: none was. */
  renewedAtMs(sessionId: string): number | undefined
  close(): Promise<void>
}
