/**
 * Headers for the few answers that are written before the hooks of the server run: what is no HTTP, and paths
 * that cannot be read. All others get them from plugins/request-frame.ts.
 */
export const guardingHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none';base-uri 'none';frame-ancestors 'none';form-action 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}
