declare module "*.svg" {
  /** A data URL. */
  const url: string;
  export default url;
}
