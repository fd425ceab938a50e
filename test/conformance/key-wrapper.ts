// What every wrapper of tenants' keys must do: open what it wrapped, for the tenant that it was wrapped for,
// and say in words of its own where it cannot.
import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { BelfryError } from '@belfry/contract'
import type { KeyWrapper } from '../../packages/server/src/ports/secrets.ts'

export const signal = AbortSignal.timeout(120_000)

export async function faultOf(work: Promise<unknown>): Promise<BelfryError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(BelfryError)
  return error as BelfryError
}

/** `open(older)`: a wrapper that wraps by the newest of its keys; without the newest where `older`. */
export function describeKeyWrapper(open: (older?: 'older') => KeyWrapper): void {
  const key = randomBytes(32)

  it('opens what it wrapped', async () => {
    const wrapper = open()
    const wrapped = await wrapper.wrap(key, 'tenant-a', signal)
    expect(wrapped.wrapperId).toBe(wrapper.ids[0])
    expect(wrapper.opens(wrapped.wrapperId)).toBe(true)
    expect(Buffer.from(wrapped.bytes).includes(key)).toBe(false)
    expect(Buffer.from(await wrapper.unwrap(wrapped, 'tenant-a', signal))).toEqual(key)
    const again = await wrapper.wrap(key, 'tenant-a', signal)
    expect(Buffer.from(again.bytes)).not.toEqual(Buffer.from(wrapped.bytes))
  })

  it('opens nothing that was wrapped for another tenant', async () => {
    const wrapper = open()
    const wrapped = await wrapper.wrap(key, 'tenant-a', signal)
    expect((await faultOf(wrapper.unwrap(wrapped, 'tenant-b', signal))).code).toBe('secrets_unavailable')
  })

  it('opens nothing of which one bit was changed', async () => {
    const wrapper = open()
    const { wrapperId, bytes } = await wrapper.wrap(key, 'tenant-a', signal)
    for (const index of [bytes.length - 1, Math.floor(bytes.length / 2)]) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(index) ^ 1, index)
      const fault = await faultOf(wrapper.unwrap({ wrapperId, bytes: changed }, 'tenant-a', signal))
      expect(fault.code).toBe('secrets_unavailable')
      expect(fault.message).not.toContain(key.toString('base64'))
    }
  })

  it('opens what an older key wrapped, and wraps by the newest', async () => {
    const before = open('older')
    const wrapped = await before.wrap(key, 'tenant-a', signal)
    const after = open()
    expect(after.ids).toContain(wrapped.wrapperId)
    expect(after.ids[0]).not.toBe(wrapped.wrapperId)
    expect(Buffer.from(await after.unwrap(wrapped, 'tenant-a', signal))).toEqual(key)
    const newer = await after.wrap(key, 'tenant-a', signal)
    expect(before.opens(newer.wrapperId)).toBe(false)
  })
}
