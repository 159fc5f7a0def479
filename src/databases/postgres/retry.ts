import { makeRetrying } from '../../system/retry.js'
import { closed, gaveUp, isTransient, storeError } from './errors.js'

export { backoff } from '../../system/retry.js'

export const retrying = makeRetrying({ closed, gaveUp, isTransient, storeError })
