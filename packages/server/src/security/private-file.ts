/**
 * Files that hold keys: for their owner alone, and there whole or not at all, so that a process that is
 * killed while it makes one leaves nothing that the next start would take for it.
 */
import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'

/** Makes the file; false: there is one, which stays as it is. Throws as the file system does. */
export function makePrivateFile(path: string, text: string): boolean {
  mkdirSync(dirname(path), { recursive: true })
  const draft = `${path}.${randomUUID()}`
  try {
    const file = openSync(draft, 'wx', 0o600)
    try {
      writeFileSync(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    chmodSync(draft, 0o600)
    linkSync(draft, path)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}
