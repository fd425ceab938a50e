// Around the embedded server, without one: the cap of its log, and the words about the user it runs as.
import { appendFileSync, closeSync, mkdtempSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { capLog, openServerLog } from '../../packages/server/src/postgres/embedded/server-log.ts'
import { sharedUserWarning } from '../../packages/server/src/postgres/embedded/unprivileged.ts'

const tenMb = 10 * 1024 * 1024

describe('the log of the embedded server', () => {
  let directory: string
  let path: string
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'belfry-log-'))
    path = join(directory, 'postgres.log')
  })
  afterEach(() => rmSync(directory, { recursive: true }))

  it('is put aside before a start when it is full, and left alone when it is not', () => {
    openServerLog(directory).close()
    appendFileSync(path, 'short\n')
    openServerLog(directory).close()
    expect(readFileSync(path, 'utf8')).toBe('short\n')
    appendFileSync(path, Buffer.alloc(tenMb))
    const { ino } = statSync(path)
    openServerLog(directory).close()
    expect(statSync(path).size).toBe(0)
    expect(statSync(`${path}.1`)).toMatchObject({ ino, size: tenMb + 6 })
  })

  it('is copied and emptied in the background while somebody writes, who goes on', async () => {
    const log = openServerLog(directory)
    const descriptor = log.open()
    try {
      writeSync(descriptor, Buffer.alloc(tenMb))
      const capped = capLog(path)
      expect(statSync(path).size, 'the caller was not kept').toBe(tenMb)
      await capped
      expect([statSync(path).size, statSync(`${path}.1`).size]).toEqual([0, tenMb])
      writeSync(descriptor, 'more\n')
      expect(readFileSync(path, 'utf8')).toBe('more\n')
      await capLog(path)
      expect(readFileSync(path, 'utf8')).toBe('more\n')
      await capLog(join(directory, 'none'))
    } finally {
      closeSync(descriptor)
      log.close()
    }
  })
})

describe('the user that the embedded server runs as', () => {
  const user = (name: string) => ({ uid: 7, gid: 7, name })

  it('is warned about where others run as it too', () => {
    expect(sharedUserWarning(user('nobody'), true)).toMatch(/as the user nobody, .*useradd --system belfry/)
    expect(sharedUserWarning(user('nobody'), false)).toBeDefined()
    expect(sharedUserWarning(user('daemon'), true)).toBeDefined()
  })

  it('is not where it is there for that, or was chosen by who made the data', () => {
    for (const name of ['postgres', 'belfry']) expect(sharedUserWarning(user(name), true)).toBeUndefined()
    expect(sharedUserWarning(user('ann'), false)).toBeUndefined()
    expect(sharedUserWarning(undefined, true)).toBeUndefined()
  })
})
