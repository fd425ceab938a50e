/**
 * What every handler kind must do, whatever it drives. A harness gives the handler and makes its target play
 * a scenario; the suite holds the handler to ports/handler.ts. The worker relies on each of these.
 */
import { maxCapturedBytes } from '@belfry/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AbortReason, Handler, HandlerRequest } from '../../packages/server/src/ports/handler.ts'

/**
 * `talks_much`: succeeds, with far more output than is kept. `says_nul`: succeeds, with bytes that no text
 * may hold.
 */
export type HandlerScenario =
  | 'succeeds'
  | 'fails'
  | 'fails_for_good'
  | 'never_ends'
  | 'talks_much'
  | 'says_nul'

export interface SeenInvocation {
  readonly runId: string
  readonly attempt: number
  readonly idempotencyKey: string
}

export interface HandlerHarness {
  readonly handler: Handler
  /** A request whose target plays the scenario. Its signal fires at its timeout, unless it is given. */
  request(scenario: HandlerScenario, changes?: Partial<HandlerRequest>): HandlerRequest
  /** What the executed code saw, in order. */
  invocations(): readonly SeenInvocation[]
  /** Resolves once so many invocations have begun. */
  invoked(count: number): Promise<void>
  /** Closes all; rejects if the handler left anything open. */
  dispose(): Promise<void>
}

/** An end that was asked for has to come within this. */
const soonMs = 2_000

const abortReasons: readonly AbortReason[] = ['timeout', 'cancel', 'lease_lost', 'shutdown']

export function handlerSuite(name: string, createHarness: () => Promise<HandlerHarness>): void {
  describe(`Handler: ${name}`, () => {
    let harness: HandlerHarness
    beforeEach(async () => {
      harness = await createHarness()
    })
    afterEach(() => harness.dispose())

    outcomes(() => harness)
    endings(() => harness)
  })
}

function outcomes(harness: () => HandlerHarness): void {
  describe('outcomes', () => {
    it('succeeds with what the target answered', async () => {
      const result = await harness().handler.execute(harness().request('succeeds'))
      expect(result).toMatchObject({ outcome: 'succeeded', responseTruncated: false })
      expect(result.response).not.toBe('')
    })

    it('fails with a code and words, and says whether trying again can help', async () => {
      const again = await harness().handler.execute(harness().request('fails'))
      const never = await harness().handler.execute(harness().request('fails_for_good'))
      expect(again).toMatchObject({ outcome: 'failed', retryable: true })
      expect(never).toMatchObject({ outcome: 'failed', retryable: false })
      for (const result of [again, never]) {
        if (result.outcome !== 'failed') throw new Error('must fail')
        expect(result.error.code).toMatch(/^[a-z]+(?:_[a-z]+)*$/)
        expect(result.error.message.length).toBeGreaterThan(10)
      }
    })

    it('hands the same idempotency key to every attempt of a run', async () => {
      const key = 'run-7f3e'
      await harness().handler.execute(harness().request('fails', { attempt: 1, idempotencyKey: key }))
      await harness().handler.execute(harness().request('succeeds', { attempt: 2, idempotencyKey: key }))
      const seen = harness().invocations()
      expect(seen.map((call) => [call.attempt, call.idempotencyKey])).toEqual([
        [1, key],
        [2, key],
      ])
    })

    it('keeps no more of the answer than the contract says, and says that it cut', async () => {
      const result = await harness().handler.execute(harness().request('talks_much'))
      expect(result).toMatchObject({ outcome: 'succeeded', responseTruncated: true })
      const bytes = Buffer.byteLength(result.response ?? '')
      expect(bytes).toBeLessThanOrEqual(maxCapturedBytes)
      expect(bytes).toBeGreaterThan(maxCapturedBytes / 2)
    })

    it('answers text that Postgres can store', async () => {
      const result = await harness().handler.execute(harness().request('says_nul'))
      expect(result.outcome).toBe('succeeded')
      expect(result.response).not.toContain('\u0000')
      expect(result.response?.isWellFormed()).toBe(true)
    })

    it('runs many at once without mixing them up', async () => {
      const ids = Array.from({ length: 40 }, (_, index) => `run-${index}`)
      const results = await Promise.all(
        ids.map((runId) =>
          harness().handler.execute(harness().request('succeeds', { runId, idempotencyKey: `key-${runId}` })),
        ),
      )
      expect(results.every((result) => result.outcome === 'succeeded')).toBe(true)
      const seen = harness().invocations()
      expect(seen.map((call) => call.runId).sort()).toEqual([...ids].sort())
      expect(seen.every((call) => call.idempotencyKey === `key-${call.runId}`)).toBe(true)
    })
  })
}

function endings(harness: () => HandlerHarness): void {
  describe('endings', () => {
    it.each(abortReasons)('ends soon after the signal fires: %s', async (reason) => {
      const controller = new AbortController()
      const running = harness().handler.execute(
        harness().request('never_ends', { signal: controller.signal, timeoutMs: 60_000 }),
      )
      await harness().invoked(1)
      const firedMs = performance.now()
      controller.abort(reason)
      expect(await running).toMatchObject({ outcome: 'failed' })
      expect(performance.now() - firedMs).toBeLessThan(soonMs)
    })

    it('ends at the timeout of the attempt, and says that it was that', async () => {
      const startedMs = performance.now()
      const result = await harness().handler.execute(harness().request('never_ends', { timeoutMs: 150 }))
      const tookMs = performance.now() - startedMs
      expect(result).toMatchObject({ outcome: 'failed', error: { code: 'timed_out' }, retryable: true })
      expect(tookMs).toBeGreaterThanOrEqual(140)
      expect(tookMs).toBeLessThan(150 + soonMs)
    })

    it('does not begin once the signal has fired', async () => {
      const request = harness().request('succeeds', { signal: AbortSignal.abort('cancel') })
      expect(await harness().handler.execute(request)).toMatchObject({ outcome: 'failed' })
      expect(harness().invocations()).toEqual([])
    })

    it('ends what runs when it is closed, and begins nothing afterwards', async () => {
      const running = harness().handler.execute(harness().request('never_ends', { timeoutMs: 60_000 }))
      await harness().invoked(1)
      await harness().handler.close()
      expect(await running).toMatchObject({ outcome: 'failed' })
      const late = await harness().handler.execute(harness().request('succeeds'))
      expect(late).toMatchObject({ outcome: 'failed' })
      expect(harness().invocations()).toHaveLength(1)
    })
  })
}
