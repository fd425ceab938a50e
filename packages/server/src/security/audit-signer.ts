/**
 * The key that attests the audit: Ed25519, from the configuration (PEM, PKCS #8), or of an installation with
 * a data directory made there once, readable by its owner alone.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { BelfryError } from '@belfry/contract'
import { keyIdOf, rawPublicKey } from '@belfry/contract/audit-chain'
import type { AuditSigner } from '../domain/audit-links.ts'
import { makePrivateFile } from './private-file.ts'

const fileName = 'audit-key.pem'

/** Throws `invalid_config`. */
export function readAuditSigner(pem: string): AuditSigner {
  return signerOf(readKey(pem, 'auditKey is'))
}

/** The key in the directory, made if there is none. Throws `invalid_config`. */
export function auditSignerIn(directory: string): AuditSigner {
  const path = join(directory, fileName)
  const pem = readIfThere(path) ?? makeKey(path)
  return signerOf(readKey(pem, `${path} holds what is`))
}

function readKey(pem: string, what: string): KeyObject {
  const fix = 'not an Ed25519 key in PEM; make one with "openssl genpkey -algorithm ed25519"'
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType === 'ed25519') return key
  } catch (error) {
    throw new BelfryError('invalid_config', `${what} ${fix}.`, { cause: error })
  }
  throw new BelfryError('invalid_config', `${what} ${fix}.`)
}

function makeKey(path: string): string {
  const { privateKey } = generateKeyPairSync('ed25519')
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  try {
    if (makePrivateFile(path, pem)) return pem
  } catch (error) {
    throw new BelfryError(
      'invalid_config',
      `The key of the audit cannot be kept in ${path}; see who may write there.`,
      {
        cause: error,
      },
    )
  }
  // another process made it at the same moment
  return readIfThere(path) ?? pem
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw new BelfryError(
      'invalid_config',
      `The key of the audit in ${path} cannot be read; see who may read it.`,
      {
        cause: error,
      },
    )
  }
}

function signerOf(key: KeyObject): AuditSigner {
  const publicKey = rawPublicKey(createPublicKey(key))
  return { keyId: keyIdOf(publicKey), publicKey, sign: (bytes) => sign(null, bytes, key) }
}
