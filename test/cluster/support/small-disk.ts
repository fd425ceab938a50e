/**
 * A disk that can be filled: a tmpfs of a given size, with a file on it that takes all that is left until it
 * is removed. Mounting needs root on Linux; where it is not possible the reason is told instead.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, rmdirSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SmallDisk {
  readonly path: string
  /** Takes every byte that is left. May be called again. */
  readonly fill: () => void
  readonly free: () => void
  readonly unmount: () => void
}

/** Mounts a disk of so many megabytes, or answers why that is not possible here. */
export function mountSmallDisk(megabytes: number): SmallDisk | string {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'mounting a small disk needs root on Linux'
  const path = mkdtempSync(join(tmpdir(), 'belfry-small-disk-'))
  const options = `size=${megabytes}m,mode=0711`
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'belfry-test', path], {
    encoding: 'utf8',
  })
  if (mounted.status !== 0) {
    rmdirSync(path)
    return `a small disk cannot be mounted here: ${mounted.stderr?.trim() || mounted.error?.message}`
  }
  const ballast = join(path, 'ballast')
  return {
    path,
    fill: () => fill(ballast),
    free: () => rmSync(ballast, { force: true }),
    unmount: () => {
      // lazily: a process that is just ending may still stand on it
      spawnSync('umount', ['-l', path])
      rmdirSync(path)
    },
  }
}

function fill(file: string): void {
  const descriptor = openSync(file, 'a')
  try {
    for (const size of [1_048_576, 4_096]) writeAll(descriptor, Buffer.alloc(size))
  } finally {
    closeSync(descriptor)
  }
}

/** Writes the same bytes again and again, until there is no room for them. */
function writeAll(descriptor: number, bytes: Buffer): void {
  for (;;) {
    try {
      if (writeSync(descriptor, bytes) < bytes.length) return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return
      throw error
    }
  }
}
